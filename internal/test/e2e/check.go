package e2e

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Succeeded wants exit status 0 and nothing on standard error but lines of the log at level INFO. A crawl on a busy
// machine writes such lines: that commits are slow, or that the pace of a host has changed.
func Succeeded(t *testing.T, got Result) {
	t.Helper()
	for line := range strings.Lines(got.Stderr) {
		if !strings.HasPrefix(line, "time=") || !strings.Contains(line, " level=INFO ") {
			t.Fatalf("exit status %d, standard error %q; want 0 and none", got.Code, got.Stderr)
		}
	}
	if got.Code != 0 {
		t.Fatalf("exit status %d, want 0", got.Code)
	}
}

// Ended checks that a crawl has ended in one way by all that it says, and that its outputs are there.
func Ended(t *testing.T, got Result, dir string, code int, status, reason string) Report {
	t.Helper()
	if got.Code != code {
		t.Errorf("exit status %d, want %d", got.Code, code)
	}
	rep := ReadReport(t, dir)
	if rep.Status != status || !strings.Contains(rep.Reason, reason) {
		t.Errorf("the report says %q (%s), want %q (%s)", rep.Status, rep.Reason, status, reason)
	}
	if !strings.Contains(got.Stdout, fmt.Sprintf("%s (%s)", rep.Status, rep.Reason)) {
		t.Errorf("the closing table does not say %q (%s):\n%s", rep.Status, rep.Reason, got.Stdout)
	}
	if len(ReadLines(t, dir)) != rep.URLs {
		t.Errorf("%d lines in sitemap.jsonl, %d URLs in the report", len(ReadLines(t, dir)), rep.URLs)
	}
	if rep.Indexable > 0 && !Exists(t, dir, "sitemap.xml") && !Exists(t, dir, "sitemap.xml.gz") {
		t.Error("no XML sitemap")
	}
	return rep
}

// Field is the value of a line of a two-column table; empty if there is no such line.
func Field(table, name string) string {
	for line := range strings.Lines(table) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Refused wants exit status 2 and exactly one line on standard error, with all the words in it.
func Refused(t *testing.T, got Result, words ...string) {
	t.Helper()
	if got.Code != 2 {
		t.Errorf("exit status %d, want 2", got.Code)
	}
	if n := strings.Count(got.Stderr, "\n"); n != 1 || !strings.HasSuffix(got.Stderr, "\n") {
		t.Errorf("%d lines on standard error, want one:\n%s", n, got.Stderr)
	}
	if got.Stdout != "" {
		t.Errorf("standard output: %q, want none", got.Stdout)
	}
	for _, w := range words {
		if !strings.Contains(got.Stderr, w) {
			t.Errorf("the error does not say %q: %s", w, got.Stderr)
		}
	}
}

// Picture is every file below a directory, with its content.
func Picture(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSocket != 0 {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		all[path] = info.Mode().String()
		if e.Type().IsRegular() {
			text, err := os.ReadFile(path)
			all[path] += fmt.Sprintf(" %x", sha256.Sum256(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Unchanged holds a directory against its picture.
func Unchanged(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := Picture(t, dir)
	for path, was := range before {
		if after[path] != was {
			t.Errorf("%s was changed: %q, was %q", path, after[path], was)
		}
	}
	for path := range after {
		if _, had := before[path]; !had {
			t.Errorf("%s was made", path)
		}
	}
}

// Write makes a file and returns its path.
func Write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
