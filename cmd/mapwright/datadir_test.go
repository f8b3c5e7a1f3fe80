package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/state"
)

// TestFullDiskAdvice: who meets a full disk is told what to do, which depends on whether there is a crawl to continue.
func TestFullDiskAdvice(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	for _, cause := range []error{state.ErrDiskFull, syscall.ENOSPC, syscall.EDQUOT} {
		err := unusable(dir, fmt.Errorf("write log: %w", cause))
		if !strings.Contains(err.Error(), "choose another --data-dir") {
			t.Errorf("no crawl: %v", err)
		}
	}
	s, err := state.Open(dir.State(), state.Options{MinFree: state.Off})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	err = unusable(dir, fmt.Errorf("commit: %w", state.ErrDiskFull))
	if !strings.Contains(err.Error(), "'mapwright resume --data-dir "+string(dir)+"'") {
		t.Errorf("with a crawl: %v", err)
	}
}
