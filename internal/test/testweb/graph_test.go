package testweb

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
)

func mustWeb(t *testing.T, cfg Config) *web {
	t.Helper()
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	w, err := newWeb(cfg, "")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestPages reads pages back with x/net/html: every link must resolve to the URL that
// the graph says it leads to, in the same order.
func TestPages(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{Pages: 1, Links: 1, PageSize: 1},
		{Hosts: 3, Pages: 70, Links: 40, CrossHost: 0.5, PageSize: 8_000},
		{Hosts: 3, HostName: "sub%d.example.test", Pages: 50, Links: 3, CrossHost: 1, TLS: true},
		{Pages: 5, Sitemaps: &Sitemaps{Orphans: 5}, Faults: OnAll(StatusPages{Where: Where{Count: 12}},
			NoFollow{Count: 2})},
	} {
		w := mustWeb(t, cfg)
		for host := range w.cfg.Hosts {
			for node := range w.leafBase() {
				checkPage(t, w, ref{host, node})
			}
		}
	}
}

func checkPage(t *testing.T, w *web, from ref) {
	t.Helper()
	at, err := url.Parse(w.url(from))
	if err != nil {
		t.Fatal(err)
	}
	body := w.appendPage(nil, from, 0)
	a := answer{body: body, header: http.Header{"Content-Type": {typeHTML}}}
	title, got := readPage(at, a)
	want := []string{at.String()} // its canonical URL
	pages := 0
	for it := w.links(from, 0); it.next(); {
		if it.leaf == nil {
			pages++
		}
		if it.leaf == nil || !it.leaf.nofollow {
			want = append(want, w.url(it.to))
		}
	}
	want = append(want, at.String()) // the fragment in its foot
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s links to\n%q\nwant\n%q\n%s", at, got, want, body)
	}
	if pages != w.cfg.Links {
		t.Errorf("%s: %d links to pages, want %d", at, pages, w.cfg.Links)
	}
	if title == "" || !strings.HasSuffix(title, fmt.Sprint(" ", from.node)) {
		t.Errorf("%s: title %q", at, title)
	}
	if len(body) < w.cfg.PageSize || len(body) > w.cfg.PageSize && w.cfg.PageSize > 5000 {
		t.Errorf("%s: %d bytes, want %d", at, len(body), w.cfg.PageSize)
	}
	if found := w.find(from.host, []byte(at.RequestURI())); found != from.node {
		t.Errorf("%s is found as %d", at, found)
	}
}

func TestPageSizes(t *testing.T) {
	for _, cfg := range []Config{
		{PageSize: 10_000}, {PageSize: 10_001, Links: 100}, {PageSize: 200 << 10, Links: 30},
		{PageSize: 4 << 10, Links: 8},
		{PageSize: 10 << 10, Hosts: 20_000, CrossHost: 0.1}, {PageSize: 10 << 10, Pages: 3_000_000},
		{PageSize: 10 << 10, HostName: "a-rather-long-name-%d.of.some.department.example.test", Pages: 1000},
	} {
		w := mustWeb(t, cfg)
		for _, node := range []int{0, 1, w.cfg.Pages / 2, w.cfg.Pages - 1} {
			if got := len(w.appendPage(nil, ref{w.cfg.Hosts - 1, node}, 0)); got != w.cfg.PageSize {
				t.Errorf("%+v: page %d has %d bytes", cfg, node, got)
			}
		}
	}
}

func TestDeterministic(t *testing.T) {
	cfg := Config{Seed: 5, Hosts: 3, CrossHost: 0.2}
	a, b := mustWeb(t, cfg), mustWeb(t, cfg)
	cfg.Seed = 6
	other := mustWeb(t, cfg)
	all := make(map[string]bool)
	for host := range 3 {
		for node := range 10 {
			r := ref{host, node}
			page := a.appendPage(nil, r, 0)
			if !bytes.Equal(page, b.appendPage(nil, r, 0)) {
				t.Errorf("page %v differs from itself", r)
			}
			if bytes.Equal(page, other.appendPage(nil, r, 0)) {
				t.Errorf("page %v does not depend on the seed", r)
			}
			all[string(page)] = true
		}
	}
	if len(all) != 30 {
		t.Errorf("%d different pages, want 30", len(all))
	}
}

// TestLargeWebs checks that the size of a web costs next to nothing until it is
// asked for.
func TestLargeWebs(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		most uint64 // bytes
	}{
		{Config{Pages: 3_000_000}, 1 << 20},
		{Config{Hosts: 20_000, Pages: 5, CrossHost: 0.2, Faults: On("*/10", Hang{}, Slow{})}, 20 << 20},
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s, err := StartOn(tt.cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > tt.most {
			t.Errorf("%+v takes %d bytes at start, want at most %d", tt.cfg, used, tt.most)
		}
		n := newNaive(s, 1)
		last, err := url.Parse(s.web.url(ref{s.web.cfg.Hosts - 1, s.web.cfg.Pages - 1}))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := n.get(last); err != nil || a.status != 200 {
			t.Errorf("%s: %d, %v", last, a.status, err)
		}
		if b := s.Stats(); len(b.Hosts) != 1 {
			t.Errorf("statistics of %d hosts, want 1", len(b.Hosts))
		}
		n.close()
		s.Close()
	}
}
