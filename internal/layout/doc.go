// Package layout holds the tests of the module's structure: which package may import which, that every package says what
// it is for, and how large types and packages may be. It has no code of its own.
package layout
