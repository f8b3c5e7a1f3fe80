//go:build !unix

package view

import "os"

// Without process groups CanDraw reports false, so a View is never started and the rest of this file is not called.
func isForeground(*os.File) bool { return false }

func notifySuspend(chan<- os.Signal) {}

func (v *View) suspend() {}

type echo struct{}

func echoOf(*os.File) *echo { return &echo{} }

func (*echo) off() {}

func (*echo) restore() {}
