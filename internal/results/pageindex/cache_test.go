package pageindex

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
)

// The cache opens an index once, sees that its file was replaced, and keeps a bounded number open.
func TestCache(t *testing.T) {
	pages, made := map[string]int{}, 0 // pages by directory; how often an index was made
	write := func(dir string, n int) {
		pages[dir] = n
		if err := os.WriteFile(filepath.Join(dir, "sitemap.jsonl"),
			[]byte(strings.Repeat(`{"schema_version":1}`+"\n", n)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Cache{Make: func(_ context.Context, dir string) error {
		made++
		if pages[dir] == 0 {
			return errors.New("it cannot be made")
		}
		s := &site{dir: dir}
		for i := range pages[dir] {
			s.pages = append(s.pages, &page.Line{URL: weburl.MustCanonical("http://a.test/" + strconv.Itoa(i)), Outcome: "ok"})
		}
		s.write(t)
		return nil
	}}
	defer c.Close()
	dirs := make([]string, maxCached+2)
	use := func(dir string) (x *Index) {
		if err := c.Use(t.Context(), dir, func(got *Index) error { x = got; return nil }); err != nil {
			t.Fatal(err)
		}
		return x
	}
	for i := range dirs {
		dirs[i] = t.TempDir()
		write(dirs[i], 3)
		if first := use(dirs[i]); first.Len() != 3 || canKeep && use(dirs[i]) != first {
			t.Errorf("the index of %d pages is opened again", first.Len())
		}
	}
	if canKeep && len(c.all) != maxCached {
		t.Errorf("%d indexes are open", len(c.all))
	}
	err := c.Use(t.Context(), dirs[0], func(old *Index) error {
		write(dirs[0], 4)
		if x := use(dirs[0]); x.Len() != 4 || old.Len() != 3 {
			t.Errorf("%d pages after the file was replaced, %d before", x.Len(), old.Len())
		}
		_, found, err := old.Find(t.Context(), "http://a.test/1")
		if !found {
			t.Error("an index that is in use was closed")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := c.Use(t.Context(), t.TempDir(), func(*Index) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if made != len(dirs)+1 {
		t.Errorf("an index was made %d times, want once for each of %d files", made, len(dirs)+1)
	}
	broken := t.TempDir()
	write(broken, 0)
	for range 2 {
		if err := c.Use(t.Context(), broken, func(*Index) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an index that cannot be made: %v", err)
		}
	}
	if made != len(dirs)+2 {
		t.Errorf("an index that cannot be made was tried %d times", made-len(dirs)-1)
	}
	c.Sweep(time.Now(), time.Hour)
	if canKeep && len(c.all) == 0 {
		t.Error("indexes that were just used are closed")
	}
	if canKeep {
		gone, open := c.all[0].dir, len(c.all)
		if err := os.Remove(filepath.Join(gone, "sitemap.jsonl")); err != nil {
			t.Fatal(err)
		}
		if c.Sweep(time.Now(), time.Hour); len(c.all) != open-1 || c.all[0].dir == gone {
			t.Errorf("the index of a crawl that was deleted is still open")
		}
	}
	if c.Sweep(time.Now().Add(2*time.Hour), time.Hour); len(c.all) > 0 {
		t.Errorf("%d indexes that nobody uses stay open", len(c.all))
	}
}

// An index that is being made does not delay those who ask for another one, and is made once, though those who asked
// for it go away before it is there. The end of the cache ends it.
func TestMakeGoesOnWithoutItsCallers(t *testing.T) {
	write := func(dir string) {
		s := &site{dir: dir, pages: []*page.Line{{URL: weburl.MustCanonical("http://a.test/"), Outcome: "ok"}}}
		s.write(t)
	}
	began, goOn := make(chan bool), make(chan bool)
	slow, other, never := t.TempDir(), t.TempDir(), t.TempDir()
	c := Cache{Make: func(ctx context.Context, dir string) error {
		if dir != other {
			began <- true // once only, or it stays here
			select {
			case <-goOn:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		write(dir)
		return nil
	}}
	for _, dir := range []string{slow, other, never} {
		if err := os.WriteFile(filepath.Join(dir, "sitemap.jsonl"), []byte(`{"schema_version":1}`+"\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	none := func(*Index) error { return nil }
	ask := func(ctx context.Context, dir string) chan error {
		ended := make(chan error, 1)
		go func() { ended <- c.Use(ctx, dir, none) }()
		return ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := ask(ctx, slow), ask(ctx, slow)
	<-began
	if err := c.Use(t.Context(), other, none); err != nil {
		t.Errorf("another index: %v", err)
	}
	cancel()
	for _, ended := range []chan error{first, second} {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that went away: %v", err)
		}
	}
	third := ask(t.Context(), slow)
	close(goOn)
	if err := <-third; err != nil {
		t.Errorf("a caller that waits: %v", err)
	}
	goOn = nil
	last := ask(t.Context(), never)
	<-began
	c.Close()
	if err := <-last; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cache that was closed: %v", err)
	}
}
