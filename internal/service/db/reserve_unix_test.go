//go:build unix

package db

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In a directory that others can write to, the reserve may lead to any file of ours, in whose place no zeros are
// written.
func TestReserveIsNoLink(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, reserveName)
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(t.Context(), Options{Dir: dir}); err == nil {
		t.Errorf("opened with a link; then %v", d.Close())
	} else if !strings.Contains(err.Error(), path+" is a link") {
		t.Error(err)
	}
	if text, err := os.ReadFile(other); string(text) != "kept" {
		t.Errorf("the other file has %.20q, %v", text, err)
	}
}
