package view

import (
	"cmp"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// CanDraw reports whether the live view can be drawn on a stream: it must be a terminal that can move its cursor, and
// this process must be in the terminal's foreground process group. On systems without process groups, such as Windows,
// it reports false, and progress is shown as lines.
func CanDraw(out io.Writer, environ []string) (*os.File, bool) {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, false
	}
	if kind := lookup(environ, "TERM"); kind == "" || kind == "dumb" {
		return nil, false
	}
	return f, isForeground(f)
}

// Able says what a terminal can show, according to the environment: NO_COLOR, which counts if it is not empty, and the
// locale.
func Able(environ []string) Screen {
	locale := cmp.Or(lookup(environ, "LC_ALL"), lookup(environ, "LC_CTYPE"), lookup(environ, "LANG"))
	locale = strings.ReplaceAll(strings.ToLower(locale), "-", "")
	return Screen{Color: lookup(environ, "NO_COLOR") == "", Unicode: strings.Contains(locale, "utf8")}
}

// lookup finds a variable. If several have the name, the last one counts.
func lookup(environ []string, name string) (value string) {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}
