// Package e2e tests Mapwright as its users have it: the built program, driven from outside, against the synthetic web.
//
// There is nothing to import. TestMain builds the program once, with the race detector if the tests run under it. A
// test starts a web, runs commands, and judges by what is left: exit status, what was printed, the files, and the web's
// own statistics. Nothing is asked of the program's insides.
//
// Some flags make tests longer: -crashes says how often TestCrash kills the program, -soak how long TestSoak crawls,
// and -long waits out what takes a minute.
package e2e
