package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{
		{"", 5, ""},
		{"a\n", 1, "a\n"},
		{"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc\n", 9, "a\nb\nc\n"},
		{"a\nb\nunfinished", 2, "b\nunfinished"},
		{strings.Repeat("x", 5<<20) + "\nlast\n", 3, "last\n"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tail(f, c.lines)
		if err != nil || string(got) != c.want {
			t.Errorf("%d lines of %.20q: %q, %v", c.lines, c.text, got, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
