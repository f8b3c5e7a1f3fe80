package service

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/slot"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// cacheOfUser makes the directory for what the user of this process may lose, with the slot for when users cannot share
// one.
func cacheOfUser(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

// unusableSlot makes a directory of the slot as another user may leave it. It returns what makes it unusable.
func unusableSlot(t *testing.T) (dir, fault string) {
	t.Helper()
	dir = t.TempDir()
	fault = filepath.Join(dir, "gate")
	if err := os.Mkdir(fault, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, fault
}

// Files of other users do not stop safe crawls: they wait for those of their own user, also if these are not of the
// service.
func TestSafeCrawlsWithoutASharedSlot(t *testing.T) {
	cacheOfUser(t)
	dir, _ := unusableSlot(t)
	synctest.Test(t, func(t *testing.T) {
		web, base, client := startWebInBubble(t, testweb.Config{Hosts: 1, Pages: 3})
		held, err := (&slot.Queue{Dir: dir, Log: slog.New(slog.DiscardHandler)}).Acquire(t.Context(), slot.Info{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ts := openService(t, Options{SlotDir: dir, Base: base, Fetcher: client}).run()
		safe := ts.submit(ts.admin, web.StartURLs()[0], "safe", "true")
		time.Sleep(2 * stepEvery)
		if w := ts.get(safe.ID).Waiting; w == nil || !strings.Contains(w.Detail, "1 go first") {
			t.Errorf("beside another crawl of the user: waits for %+v", w)
		}
		if err := held.Release(); err != nil {
			t.Fatal(err)
		}
		ts.awaitState(safe.ID, Complete)
		ts.end()
	})
}

// While no slot can be had at all, the service tries again more and more rarely, and users learn that no other crawl is
// the reason.
func TestSafeCrawlsWithoutASlot(t *testing.T) {
	cache := cacheOfUser(t)
	if err := os.MkdirAll(filepath.Dir(cache), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(cache); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cache, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir, fault := unusableSlot(t)
	synctest.Test(t, func(t *testing.T) {
		web, base, client := startWebInBubble(t, testweb.Config{Hosts: 1, Pages: 3})
		var errs errorCount
		ts := openService(t, Options{SlotDir: dir, Base: base, Fetcher: client,
			Log: slog.New(slog.NewTextHandler(&errs, &slog.HandlerOptions{Level: slog.LevelError}))}).run()
		safe := ts.submit(ts.admin, web.StartURLs()[0], "safe", "true")
		time.Sleep(10 * lastRetry)
		if n := errs.number(); n < 10 || n > 16 {
			t.Errorf("%d errors in %s", n, 10*lastRetry)
		}
		if w := ts.get(safe.ID).Waiting; w == nil || w.Code != WaitSafeSlot || strings.Contains(w.Detail, "only one") {
			t.Errorf("waits for %+v", w)
		}
		if err := os.Remove(fault); err != nil {
			t.Fatal(err)
		}
		ts.awaitState(safe.ID, Complete)
		ts.end()
	})
}

// errorCount counts the lines that are written to it.
type errorCount struct {
	mu sync.Mutex
	n  int // guarded by mu
}

func (c *errorCount) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += bytes.Count(p, []byte{'\n'})
	return len(p), nil
}

func (c *errorCount) number() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
