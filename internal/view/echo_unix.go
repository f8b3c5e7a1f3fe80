//go:build unix

package view

import (
	"os"

	"golang.org/x/sys/unix"
)

// echo is the terminal's showing of what is typed. While a picture is drawn it is off: a newline would shift the whole
// of it. Everything else about the terminal stays, above all that Ctrl-C is a signal.
type echo struct {
	fd  int
	was *unix.Termios // nil if the terminal could not be asked
}

func echoOf(f *os.File) *echo { return &echo{fd: int(f.Fd())} }

func (e *echo) off() {
	was, err := unix.IoctlGetTermios(e.fd, getTermios)
	if err != nil {
		return
	}
	e.was = was
	quiet := *was
	quiet.Lflag &^= unix.ECHO | unix.ECHONL
	_ = unix.IoctlSetTermios(e.fd, setTermios, &quiet) // then what is typed is shown, which does no harm
}

// restore makes the terminal as off found it.
func (e *echo) restore() {
	if e.was != nil {
		_ = unix.IoctlSetTermios(e.fd, setTermios, e.was) // a terminal that is gone needs nothing
	}
	e.was = nil
}
