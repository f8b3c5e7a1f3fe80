// Package layout holds the tests that keep the house in order: which package may import which, and that every package
// says what it is for. It has no code of its own.
package layout
