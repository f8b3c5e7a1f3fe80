// Package mute keeps the library that draws the live view from asking the terminal questions whenever the program is loaded.
//
// Bubble Tea's package of major version 1 asks for the terminal's background colour when it is initialized, so for every command
// of a program that links it, and waits up to five seconds for terminals that do not answer. It does not ask a dumb terminal. So this
// package calls the terminal dumb while packages are initialized, and [End], which the package that imports both calls when it is
// initialized itself, takes that back.
//
// That this package comes first is the language's promise: of the packages that are ready to be initialized the first by import path
// is next. This one is ready when os is, the library's own imports need os too, and github.com/muesli/termenv among them sorts after it.
package mute

import "os"

func init() {
	if was, set := os.LookupEnv(variable); set {
		_ = os.Setenv(saved, was)
		_ = os.Setenv(variable, "dumb")
	}
}

const (
	variable = "TERM"
	saved    = "MAPWRIGHT_SAVED_TERM"
)

// End gives the variable its value back.
func End() {
	if was, set := os.LookupEnv(saved); set {
		_ = os.Setenv(variable, was)
		_ = os.Unsetenv(saved)
	}
}
