//go:build unix

package view

import (
	"os"

	"golang.org/x/sys/unix"
)

// echo controls whether the terminal shows what is typed. It is off while a picture is drawn, because a typed newline
// would shift the picture. Nothing else about the terminal changes: Ctrl-C still sends a signal.
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
	_ = unix.IoctlSetTermios(e.fd, setTermios, &quiet) // on failure, typed text is shown: harmless
}

// restore makes the terminal as off found it.
func (e *echo) restore() {
	if e.was != nil {
		_ = unix.IoctlSetTermios(e.fd, setTermios, e.was) // a terminal that is gone needs nothing
	}
	e.was = nil
}
