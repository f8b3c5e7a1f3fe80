package e2e

import (
	"fmt"
	"os"
	"strings"
)

// OwnMemory is how much memory of its own a process has now, in MB; 0 if it has just ended.
func OwnMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for row := range strings.Lines(string(text)) {
		var kb int64
		if _, err := fmt.Sscanf(row, "RssAnon: %d kB", &kb); err == nil {
			return kb >> 10
		}
	}
	return 0
}
