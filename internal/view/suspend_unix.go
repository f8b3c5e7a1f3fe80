//go:build unix

package view

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// suspend stops the process, as Ctrl-Z asks. It gives the terminal back first, and takes it again when the process goes
// on. It uses SIGSTOP, because SIGTSTP stops nothing once Go has caught it.
func (v *View) suspend() {
	if !jobControl() {
		return
	}
	if err := v.write(leaveScreen); err != nil {
		v.o.Log.Warn("the live view cannot give the terminal back", "error", err)
	}
	v.echo.restore()
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	_ = unix.Kill(unix.Getpid(), unix.SIGSTOP) // a process may always signal itself
	select {
	case <-resumed:
	case <-time.After(time.Second): // the process may stop a moment after Kill returns
	}
	v.echo.off()
	v.width, v.shown = 0, nil // all is drawn again
	if err := v.write(takeScreen); err != nil {
		v.o.Log.Warn("the live view cannot take the terminal again", "error", err)
	}
}

// notifySuspend asks for the signal that Ctrl-Z sends.
func notifySuspend(c chan<- os.Signal) { signal.Notify(c, syscall.SIGTSTP) }

// isForeground reports whether this process is in the foreground process group of the terminal.
func isForeground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// jobControl says whether there is a process that could continue this one: a shell that leads the session from another
// process group. Where there is none, as in a container, the system ignores Ctrl-Z.
func jobControl() bool {
	leader, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	group, err := unix.Getpgid(leader)
	return err == nil && group != unix.Getpgrp()
}
