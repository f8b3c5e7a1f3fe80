package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of /proc/PID/stat on Linux.
const ticksPerSecond = 100

// CPU is the processor time that all processes of the server have used since it was
// started, those that have ended included. It works on Linux.
func (s *Server) CPU() (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	main := string(first)
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var ticks int64
	found := false
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name of the program, in parentheses, may have any characters.
		_, after, ok := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
		fields := strings.Fields(after) // from the third one on: state, parent
		if !ok || len(fields) < 15 {
			return 0, fmt.Errorf("%s cannot be read", path)
		}
		pid := filepath.Base(filepath.Dir(path))
		own := pid == main
		if !own && fields[1] != main {
			continue
		}
		found = found || own
		times := fields[11:13] // of the process
		if own {
			times = fields[11:15] // and of its children that have ended
		}
		for _, t := range times {
			n, err := strconv.ParseInt(t, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", path, err)
			}
			ticks += n
		}
	}
	if !found {
		return 0, errors.New("the server does not run")
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}
