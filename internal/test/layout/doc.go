// Package layout holds the tests of the module's structure: which package may import which, that every package says
// what it is for, and that no test sleeps outside of a bubble. It has no code of its own.
package layout
