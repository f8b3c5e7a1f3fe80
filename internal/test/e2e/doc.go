// Package e2e helps to test Mapwright as its users have it: the built program, driven from outside, against the
// synthetic web. The tests are in the folders below, one for each subject.
//
// TestMain of such a package calls Main, which builds the program, with the race detector if the tests run under it. A
// test starts a web (Serve), runs commands (Run, Start, Invocation), and judges by what is left: exit status, what was
// printed, the files, and the web's own statistics. Nothing is asked of the program's insides.
//
// The flag -crashes makes tests longer: it says how often a TestCrash kills the program.
package e2e
