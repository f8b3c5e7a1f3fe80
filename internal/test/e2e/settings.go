package e2e

import (
	"strings"
	"testing"
)

// Effective is what --print-config says of each setting: its value, and where that came from.
func Effective(t *testing.T, got Result) map[string][2]string {
	t.Helper()
	if got.Code != 0 {
		t.Fatalf("exit status %d, want 0", got.Code)
	}
	all := map[string][2]string{}
	for text := range strings.Lines(got.Stdout) {
		name, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		value, from, ok := strings.Cut(strings.TrimSpace(rest), "  ")
		if !ok { // a long value leaves one space
			i := strings.LastIndex(rest, " default")
			value, from = strings.TrimSpace(rest[:max(i, 0)]), strings.TrimSpace(rest[max(i, 0):])
		}
		all[name] = [2]string{strings.TrimSpace(value), strings.TrimSpace(from)}
	}
	return all
}

func SameSet(a, b []string) bool {
	count := map[string]int{}
	for _, s := range a {
		count[s]++
	}
	for _, s := range b {
		count[s]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}
