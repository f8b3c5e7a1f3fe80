package commands

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// The log of a crawl is in its data directory, off a terminal too; a resume goes on with it. --log-file names another
// file instead.
func TestLogFile(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 20})
	dir := filepath.Join(t.TempDir(), "data")
	crawl := []string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--max-urls", "5"}
	got := e2e.Run(t, append(crawl, "--data-dir", dir)...)
	if !strings.Contains(got.Stderr, "Reached max_urls limit of 5") || e2e.Read(t, dir, "mapwright.log") != got.Stderr {
		t.Errorf("standard error:\n%s\nmapwright.log:\n%s", got.Stderr, e2e.Read(t, dir, "mapwright.log"))
	}
	first := got.Stderr
	got = e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", "7", "--no-progress")
	if e2e.Read(t, dir, "mapwright.log") != first+got.Stderr {
		t.Errorf("after resume, mapwright.log is\n%s", e2e.Read(t, dir, "mapwright.log"))
	}

	other := t.TempDir()
	dir = filepath.Join(t.TempDir(), "data")
	got = e2e.Run(t, append(crawl, "--data-dir", dir, "--log-file", filepath.Join(other, "crawl.log"))...)
	if got.Stderr != "" || e2e.Exists(t, dir, "mapwright.log") ||
		!strings.Contains(e2e.Read(t, other, "crawl.log"), "Reached max_urls limit of 5") {
		t.Errorf("with --log-file, standard error is %q", got.Stderr)
	}
}

// In a JSON log numbers are numbers, and durations are numbers of seconds whose names say so; a text log has them
// rounded.
func TestNumbersInTheLog(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 200, Faults: testweb.OnAll(testweb.Slow{Delay: 20 * time.Millisecond},
		testweb.Hang{})})
	for _, format := range []string{"json", "text"} {
		dir := filepath.Join(t.TempDir(), "data")
		p := e2e.Start(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve",
			web.Resolve(),
			"--data-dir", dir,
			"--duration", "0.5", "--grace", "0.1", "--log-format", format)
		got := p.Wait()
		if format == "text" {
			for _, text := range []string{`used=400ms limit=500ms`, `used=475ms limit=500ms`} {
				if !strings.Contains(got.Stderr, text) {
					t.Errorf("the text log does not say %s:\n%s", text, got.Stderr)
				}
			}
			continue
		}
		warned := 0
		for text := range strings.Lines(got.Stderr) {
			entry := e2e.Parse[map[string]any](t, text)
			for name, value := range entry {
				if word, ok := value.(string); ok && name != "time" &&
					regexp.MustCompile(`^[-\d.,]+[a-zµ]{0,2}$`).MatchString(word) {
					t.Errorf("%s is the text %q:\n%s", name, word, text)
				}
			}
			if entry["limit_seconds"] == 0.5 && (entry["used_seconds"] == 0.4 || entry["used_seconds"] == 0.475) {
				warned++
			}
		}
		if warned != 2 {
			t.Errorf("%d warnings with their seconds as numbers, want 2:\n%s", warned, got.Stderr)
		}
	}
}

// The hint that own-site exists is on the terminal, for a crawl of one site in the default profile and for no other.
func TestHintOnATerminal(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 2, Pages: 3, Faults: testweb.OnAll(testweb.Hang{})})
	const hint = "--profile own-site"
	for _, tt := range []struct {
		name  string
		flags []string
		want  bool
	}{
		{"polite", nil, true},
		{"own-site", []string{"--profile", "own-site"}, false},
		{"two sites", []string{"--start-url", web.StartURLs()[1]}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			term := sitting{}.start(t, append([]string{"crawl", "--start-url", web.StartURLs()[0], "--resolve",
				web.Resolve(), "--data-dir", dir}, tt.flags...)...)
			term.sees("the crawl", func(s *screen) bool { return strings.Contains(s.String(), "Ctrl-C stops") })
			if tt.want {
				term.shows(hint)
			}
			term.types("\x03")
			term.wait()
			if seen := strings.Contains(term.all(), hint); seen != tt.want {
				t.Errorf("the hint was shown: %v, want %v", seen, tt.want)
			}
		})
	}
}
