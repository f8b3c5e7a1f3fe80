package crash

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// TestBitRot changes single bits of a crawl's state, in every file of it, and of crawl.json. export, status and resume
// each give exactly the right result, or end with status 1 and name the file and what to do; export and status then
// have changed nothing.
func TestBitRot(t *testing.T) {
	t.Parallel()
	const all, first = 80, 50
	web := e2e.Serve(t, testweb.Config{Pages: all})
	dir := filepath.Join(t.TempDir(), "data")
	flags := []string{"--profile", "own-site", "--resolve", web.Resolve(), "--data-dir", dir}
	got := e2e.Run(t, append([]string{"crawl", "--start-url", web.StartURLs()[0], "--max-urls", fmt.Sprint(first)},
		flags...)...)
	if got.Code != 3 {
		t.Fatalf("exit status %d, want 3", got.Code)
	}
	whole := readTree(t, dir)
	want := whole["sitemap.jsonl"]
	wantStatus := e2e.Status(t, dir)
	resume := []string{"resume", "--data-dir", dir, "--max-urls", "0"}
	e2e.Succeeded(t, e2e.Run(t, resume...))
	outcomes := outcomesOf(e2e.ReadLines(t, dir))
	writeTree(t, dir, whole)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	refused := func(where, command string, got e2e.Result) bool {
		if got.Code == 0 {
			return false
		}
		if got.Code != 1 || !strings.Contains(got.Stderr, dir) ||
			!strings.Contains(got.Stderr, "restore the data directory") || strings.Contains(got.Stderr, "goroutine ") {
			t.Errorf("%s: %s ends with status %d and says %s", where, command, got.Code, got.Stderr)
		}
		return true
	}
	found := 0
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		if !strings.HasPrefix(name, "state"+string(filepath.Separator)) && name != "crawl.json" ||
			len(whole[name]) == 0 {
			continue
		}
		for turn := range 3 {
			flipped := bytes.Clone(whole[name])
			used := max(1, len(bytes.TrimRight(flipped, "\x00")))
			at := []int{rng.IntN(min(used, 40)), rng.IntN(used), used - 1 - rng.IntN(min(used, 40))}[turn]
			flipped[at] ^= 1 << rng.IntN(8)
			tree := maps.Clone(whole)
			tree[name] = flipped
			where := fmt.Sprintf("%s, byte %d of %d", name, at, len(flipped))

			writeTree(t, dir, tree)
			out := t.TempDir()
			if got := e2e.Run(t, "export", "--data-dir", dir, "--output", out); refused(where, "export", got) {
				found++
				if changed := differs(tree, readTree(t, dir)); changed != "" {
					t.Errorf("%s: export refused it, and changed %s", where, changed)
				}
			} else if b, err := os.ReadFile(filepath.Join(out, "sitemap.jsonl")); err != nil || !bytes.Equal(b, want) {
				t.Errorf("%s: export wrote another file (%v)", where, err)
			}
			switch turn {
			case 0:
				writeTree(t, dir, tree)
				if got := e2e.Run(t, "status", "--json", "--data-dir", dir); refused(where, "status", got) {
					if changed := differs(tree, readTree(t, dir)); changed != "" {
						t.Errorf("%s: status refused it, and changed %s", where, changed)
					}
				} else if s := e2e.Parse[e2e.Live](t,
					got.Stdout); s.State != wantStatus.State || s.Found != wantStatus.Found ||
					s.Done != wantStatus.Done {
					t.Errorf("%s: status says %+v, want %+v", where, s, wantStatus)
				}
			case 1:
				writeTree(t, dir, tree)
				if got := e2e.Run(t, resume...); !refused(where, "resume", got) &&
					!maps.Equal(outcomesOf(e2e.ReadLines(t, dir)), outcomes) {
					t.Errorf("%s: the resumed crawl found something else", where)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no damage was found")
	}
}

func outcomesOf(lines map[string]e2e.Line) map[string]string {
	out := map[string]string{}
	for url, l := range lines {
		out[url] = l.Outcome
	}
	return out
}

// readTree reads all files under dir but lock files, which hold a process id, and sockets.
func readTree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	tree := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == "LOCK" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		tree[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// writeTree makes dir hold the files of the tree and no others.
func writeTree(t *testing.T, dir string, tree map[string][]byte) {
	t.Helper()
	now := readTree(t, dir)
	for name := range now {
		if _, ok := tree[name]; !ok {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, content := range tree {
		if old, ok := now[name]; ok && bytes.Equal(old, content) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// differs names a file that is not the same in both trees.
func differs(a, b map[string][]byte) string {
	for name := range a {
		if got, ok := b[name]; !ok || !bytes.Equal(a[name], got) {
			return name
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			return name
		}
	}
	return ""
}

// TestRotOfTheLastBatch damages the end of the log of a crawl that was killed: what is lost was durable and is in the
// view. That is not taken for a write that the kill cut short. Every command names the file and the place, and changes
// nothing; with the bytes back the crawl goes on.
func TestRotOfTheLastBatch(t *testing.T) {
	t.Parallel()
	web, dir, p := e2e.Hanging(t)
	e2e.Flush(t, dir)
	p.Kill()
	whole := readTree(t, dir)
	segment := ""
	for name := range whole {
		if filepath.Ext(name) == ".wal" {
			segment = max(segment, name)
		}
	}
	tree := maps.Clone(whole)
	tree[segment] = bytes.Clone(whole[segment])
	tree[segment][len(bytes.TrimRight(whole[segment], "\x00"))-20] ^= 4
	writeTree(t, dir, tree)
	for _, args := range [][]string{{"status"}, {"export"}, {"resume"}} {
		got := e2e.Run(t, append(args, "--data-dir", dir)...)
		for _, text := range []string{filepath.Join(dir, segment), "at offset ", "was durable",
			"restore the data directory"} {
			if got.Code != 1 || !strings.Contains(got.Stderr, text) {
				t.Errorf("%s ends with status %d and does not say %q: %s", args[0], got.Code, text, got.Stderr)
			}
		}
		if changed := differs(tree, readTree(t, dir)); changed != "" {
			t.Errorf("%s has changed %s", args[0], changed)
		}
	}
	writeTree(t, dir, whole)
	e2e.Ended(t, e2e.Run(t, "resume", "--data-dir", dir, "--timeout", "1", "--max-retries", "0",
		"--max-host-backoff-secs",
		"1"), dir, 0, "complete", "")
	if n := e2e.Repeats(web); n != 0 {
		t.Errorf("%d pages were fetched again", n)
	}
}
