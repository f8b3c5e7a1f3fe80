package crawl

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// inBubble runs a test beside others, in a bubble of testing/synctest: time passes only when every goroutine waits, so
// times are exact however busy the machine is.
func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// memoryWeb is a synthetic web that is reached through pipes, in a bubble.
type memoryWeb struct {
	*testweb.Server
	t     *testing.T
	cfg   testweb.Config
	names fetch.Resolver
}

func newMemoryWeb(t *testing.T, cfg testweb.Config) *memoryWeb {
	t.Helper()
	// A request that begins in the instant of a refusal was leased before it. There is no other delay in a bubble.
	cfg.Grace = time.Nanosecond
	web, err := testweb.StartOn(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := web.Close(); err != nil {
			t.Error(err)
		}
	})
	return &memoryWeb{web, t, cfg, anyName{}}
}

// anyName resolves every name to one public address. The connections of a bubble are pipes, so nothing connects to it.
type anyName struct{}

func (anyName) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
}

// client makes a client by the settings of a crawl whose connections are pipes to the web.
func (w *memoryWeb) client(s *config.Settings) *fetch.Client {
	w.t.Helper()
	o, err := fetchOptions(s, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	o.Dial, o.Resolver = w.Dial, w.names
	client, err := fetch.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := client.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return client
}

// options are those of a crawl in the bubble.
func (w *memoryWeb) options(s *config.Settings, dir datadir.Dir, urls ...string) Options {
	w.t.Helper()
	return Options{
		Settings: s, Fetcher: w.client(s), NoControl: true, Starts: starts(w.t, urls...), Dir: dir, Version: "test",
		Log: testLog(w.t, slog.LevelWarn),
	}
}

// crawlAll crawls from the URLs to the end and returns what was written.
func (w *memoryWeb) crawlAll(s *config.Settings, urls ...string) (*report.Report, map[string]line) {
	w.t.Helper()
	dir := newDir(w.t)
	rep, err := runAlone(w.t.Context(), w.options(s, dir, urls...))
	if err != nil {
		w.t.Fatal(err)
	}
	return rep, readLines(w.t, dir)
}
