package view

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// CanDraw says whether a picture can be drawn on a stream: it must be a terminal that can move its cursor, and this process must be
// in front, since whoever runs it in the background is using the terminal for something else.
func CanDraw(out io.Writer, environ []string) (*os.File, bool) {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, false
	}
	if kind := lookup(environ, "TERM"); kind == "" || kind == "dumb" {
		return nil, false
	}
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return f, err == nil && group == unix.Getpgrp()
}

// Able says what a terminal can show, by what its user says of it: NO_COLOR, which counts if it is not empty, and the locale.
func Able(environ []string) Screen {
	locale := lookup(environ, "LC_ALL")
	for _, name := range []string{"LC_CTYPE", "LANG"} {
		if locale == "" {
			locale = lookup(environ, name)
		}
	}
	locale = strings.ReplaceAll(strings.ToLower(locale), "-", "")
	return Screen{Color: lookup(environ, "NO_COLOR") == "", Unicode: strings.Contains(locale, "utf8")}
}

// lookup finds a variable; of several with one name the last counts.
func lookup(environ []string, name string) (value string) {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}
