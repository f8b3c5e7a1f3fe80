package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/state"
)

// A mortal is a crawl in a bubble that is killed and resumed. It is the web of the crawl too, and reads its log.
type mortal struct {
	slog.Handler
	t        *testing.T
	settings *config.Settings
	start    string
	answers  map[string]string // by URL
	takes    time.Duration     // of every answer
	fails    string            // URL that cannot be fetched
	deadly   string            // URL that ends the process
	died     chan struct{}     // has an element when the process is ended from inside

	killAlone func(url string) bool // whether the process is killed when a URL is asked for alone; nil for never

	dir   datadir.Dir
	runs  int
	kills map[string]int // how often a URL was in flight alone at a kill

	mu       sync.Mutex
	inflight map[string]bool // guarded by mu
	alone    map[string]bool // guarded by mu; URLs that this run has tried alone
	waited   bool            // guarded by mu; a run has said that URLs wait
}

func newMortal(t *testing.T, takes time.Duration) *mortal {
	s := config.Defaults(config.OwnSite)
	s.MaxWorkers, s.BloomCapacity, s.SeedingStrategy = 8, 100_000, []string{"none"}
	s.Scope, s.IgnoreRobots = "any", true
	return &mortal{
		Handler: testLog(t, slog.LevelInfo).Handler(), t: t, settings: s, start: "http://a.test/",
		answers: map[string]string{},
		takes:   takes, died: make(chan struct{}, 1), dir: newDir(t), kills: map[string]int{},
		inflight: map[string]bool{},
	}
}

// site makes a start page that links to a number of pages, each of a host of its own.
func (m *mortal) site(pages int) {
	links := ""
	for i := range pages {
		links += fmt.Sprintf("<a href=%s>x</a>", pageOf(i))
		m.answers[pageOf(i)] = fmt.Sprint("page ", i)
	}
	m.answers[m.start] = links
}

func pageOf(i int) string { return fmt.Sprintf("http://h%d.test/", i) }

// Do implements [Fetcher].
func (m *mortal) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	canceled := func(err error) (*fetch.Response, error) {
		return nil, &fetch.Error{Kind: fetch.Canceled, Phase: "connect", Err: err}
	}
	if err := r.Wire.Start(); err != nil {
		return canceled(err)
	}
	url := r.URL.String()
	answer, known := m.answers[url]
	resp := &fetch.Response{Status: http.StatusOK, Proto: "HTTP/1.1", Header: http.Header{}, ContentType: "text/html",
		ContentLength: -1, Charset: "utf-8", Body: []byte(answer)}
	if !known {
		resp.Status, resp.Body = http.StatusNotFound, nil
	}
	if r.Mode == fetch.Stream {
		resp.Body, resp.Reader = nil, strings.NewReader(answer)
	}
	m.mu.Lock()
	if len(m.inflight) > 0 && m.alone[url] {
		m.t.Errorf("%s is tried alone beside %v", url, m.inflight)
	}
	m.inflight[url] = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.inflight, url)
		m.mu.Unlock()
	}()
	takes := time.After(m.takes)
	if url == m.deadly || m.isAlone(url) && m.killAlone != nil && m.killAlone(url) {
		takes = nil
		select {
		case m.died <- struct{}{}:
		default: // it is ending already
		}
	}
	select {
	case <-takes:
		if url == m.fails {
			return nil, &fetch.Error{Kind: fetch.ReadError, Phase: "body", Err: io.ErrUnexpectedEOF}
		}
		return resp, nil
	case <-ctx.Done():
		return canceled(ctx.Err())
	}
}

func (m *mortal) isAlone(url string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alone[url]
}

// Handle implements [slog.Handler].
func (m *mortal) Handle(ctx context.Context, r slog.Record) error {
	m.mu.Lock()
	switch {
	case strings.HasPrefix(r.Message, "trying a URL alone"):
		r.Attrs(func(a slog.Attr) bool {
			m.alone[a.Value.String()] = true
			return false
		})
	case strings.Contains(r.Message, "are then tried alone"):
		m.waited = true
	}
	m.mu.Unlock()
	return m.Handler.Handle(ctx, r)
}

// live runs the crawl until it ends, or is killed: when it asks for the deadly URL, or when the channel gives
// something. It returns nil for a crawl that was killed. Nothing is done in good order then: the next run sees the
// files as they were at that moment.
func (m *mortal) live(kill <-chan time.Time) *report.Report {
	t := m.t
	t.Helper()
	o := Options{Settings: m.settings, Fetcher: m, NoControl: true, Starts: starts(t, m.start), Dir: m.dir,
		Version: "test", Log: slog.New(m)}
	if m.runs > 0 {
		plan, err := datadir.ReadPlan(m.dir)
		if err != nil {
			t.Fatal(err)
		}
		o.Starts, o.Plan = nil, plan
	}
	m.runs++
	m.mu.Lock()
	m.alone = map[string]bool{}
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type ending struct {
		rep *report.Report
		err error
	}
	ended := make(chan ending, 1)
	go func() {
		rep, err := runAlone(ctx, o)
		ended <- ending{rep, err}
	}()
	select {
	case e := <-ended:
		if e.err != nil {
			t.Fatal(e.err)
		}
		return e.rep
	case <-m.died:
	case <-kill:
	}
	synctest.Wait()
	m.mu.Lock()
	for url := range m.inflight {
		if m.alone[url] {
			m.kills[url]++
		}
	}
	m.mu.Unlock()
	dead := m.dir
	m.dir = newDir(t)
	copyTree(t, string(dead), string(m.dir))
	cancel()
	<-ended
	select {
	case <-m.died: // what asked for it while it was ending is not seen by the next run
	default:
	}
	if err := os.RemoveAll(string(dead)); err != nil {
		t.Fatal(err)
	}
	return nil
}

// look opens and closes the store, as status and export of a crawl that does not run do.
func (m *mortal) look() {
	m.t.Helper()
	s, err := state.Open(m.dir.State(), state.Options{Mode: state.ExistingOnly})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// copyTree copies the files of a directory. It leaves holes where there are zeros: much of a log and of Badger's files
// is not written yet.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	empty := make([]byte, 1<<16)
	copyFile := func(path, name string) error {
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.Create(name)
		if err != nil {
			return err
		}
		defer out.Close()
		block, size := make([]byte, len(empty)), int64(0)
		for {
			n, err := io.ReadFull(in, block)
			if n > 0 && !bytes.Equal(block[:n], empty[:n]) {
				if _, err := out.WriteAt(block[:n], size); err != nil {
					return err
				}
			}
			size += int64(n)
			if err != nil {
				if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
					return out.Truncate(size)
				}
				return err
			}
		}
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(name, 0o700)
		}
		return copyFile(path, name)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A crawl that is killed more often than every ten seconds ends as one that was never killed, and tries no page alone
// before it is left to run.
func TestKilledAgainAndAgain(t *testing.T) {
	long.Test(t)
	inBubble(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		m := newMortal(t, 700*time.Millisecond)
		m.site(60)
		for range 14 {
			most := 400 * time.Millisecond
			if rnd.IntN(4) == 0 {
				most = calm - time.Second
			}
			if m.live(time.After(time.Duration(rnd.Int64N(int64(most))))) != nil {
				t.Fatal("the crawl ended, want it killed")
			}
			if len(m.alone) > 0 {
				t.Errorf("run %d tried %v alone", m.runs, m.alone)
			}
			if rnd.IntN(3) == 0 {
				m.look()
			}
		}
		if !m.waited {
			t.Error("no page was in flight at three ends")
		}
		began := time.Now()
		rep := m.live(nil)
		if len(rep.Outcomes) != 1 || rep.Outcomes["ok"] != 61 || len(m.alone) == 0 || time.Since(began) < calm {
			t.Errorf("outcomes %v after %v, want 61 ok; %d tried alone", rep.Outcomes, time.Since(began), len(m.alone))
		}
	})
}

// A page that waits for another attempt, or that is read, is not in flight.
func TestKilledWhileNothingIsInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := newMortal(t, 100*time.Millisecond)
		m.site(5)
		m.fails = pageOf(3)
		for range aloneAfter + 1 {
			if m.live(time.After(time.Second)) != nil || len(m.inflight) > 0 {
				t.Fatalf("the crawl is not killed while a page waits: %v are in flight", m.inflight)
			}
		}
		m.fails = ""
		if rep := m.live(nil); rep.Outcomes["ok"] != 6 || m.waited || len(m.alone) > 0 {
			t.Errorf("outcomes %v; pages waited: %v; tried alone: %v", rep.Outcomes, m.waited, m.alone)
		}
	})
}

// A page is crashed if, and only if, it was in flight alone at two kills. What else was killed while it was in flight
// is as in a crawl that was never killed.
func TestCrashedIsTwiceAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const pages = 12
		m := newMortal(t, 2*time.Second)
		m.site(pages)
		m.live(time.After(3 * time.Second)) // the start page is read
		for range aloneAfter {
			m.live(time.After(time.Second))
		}
		m.killAlone = func(url string) bool {
			n := 0
			_, err := fmt.Sscanf(url, "http://h%d.test/", &n)
			return err == nil && m.kills[url] < n%4
		}
		for m.live(nil) == nil {
		}
		lines := readLines(t, m.dir)
		for url, l := range lines {
			outcome := page.OK
			if m.kills[url] >= crashedAfter {
				outcome = page.Crashed
			}
			if l.Outcome != outcome.String() || m.kills[url] > crashedAfter {
				t.Errorf("%s is %q, and was in flight alone at %d kills", url, l.Outcome, m.kills[url])
			}
		}
		t.Logf("%d runs; in flight alone at kills: %v", m.runs, m.kills)
		if len(lines) != pages+1 || len(m.kills) == 0 {
			t.Errorf("%d lines, want %d; in flight alone at kills: %v", len(lines), pages+1, m.kills)
		}
	})
}

// A page or a sitemap that ends the process costs five deaths, whatever is in flight with it, wherever it stands in the
// queue and whatever looks at the crawl in between. It is tried again at once when the user asks for that.
func TestFiveDeaths(t *testing.T) {
	long.Test(t)
	const urls = 40
	for name, c := range map[string]struct {
		deadly  string
		workers int
		looks   bool
	}{
		"the start page":            {"http://a.test/", 8, true},
		"the first of many":         {pageOf(0), 64, false},
		"in the middle, one by one": {pageOf(20), 1, true},
		"the last":                  {pageOf(urls - 1), 8, true},
		"a sitemap":                 {"http://a.test/map.xml", 8, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				m := newMortal(t, 50*time.Millisecond)
				m.site(urls)
				m.settings.MaxWorkers, m.deadly = c.workers, c.deadly
				sitemap := strings.HasSuffix(c.deadly, "xml")
				if sitemap {
					m.settings.SeedingStrategy, m.settings.IgnoreRobots = []string{"sitemap"}, false
					m.answers["http://a.test/robots.txt"] = "Sitemap: " + c.deadly
					m.answers[c.deadly] = "<urlset><url><loc>http://a.test/listed</loc></url></urlset>"
					m.answers["http://a.test/listed"] = "a page that the sitemap alone names"
				}
				began, deaths := time.Now(), 0
				rep := m.live(nil)
				for ; rep == nil; rep = m.live(nil) {
					if deaths++; c.looks {
						m.look()
						m.look()
					}
				}
				if deaths != aloneAfter+crashedAfter || time.Since(began) > 4*calm {
					t.Errorf("%d deaths in %v", deaths, time.Since(began))
				}
				outcomes := func(crashed string) {
					t.Helper()
					for url, l := range readLines(t, m.dir) {
						want := page.OK
						if url == crashed {
							want = page.Crashed
						}
						if l.Outcome != want.String() {
							t.Errorf("%s is %s: %s", url, l.Outcome, l.Error)
						}
					}
				}
				outcomes(c.deadly)
				if why := strings.Join(rep.Warnings, " "); !strings.Contains(why, "--retry-crashed") {
					t.Errorf("warnings %q", why)
				}

				m.settings.RetryCrashed = true
				began = time.Now()
				if m.live(nil) != nil || time.Since(began) > time.Second {
					t.Error("it is not tried again at once")
				}
				m.deadly = ""
				rep = m.live(nil)
				if outcomes(""); rep.URLs != urls+1 && !sitemap || rep.URLs != urls+2 && sitemap {
					t.Errorf("%d URLs", rep.URLs)
				}
			})
		})
	}
}

// Kills at equal intervals give up no page that is read within ten seconds. Kills at random intervals give up a page
// with a chance of at most the square of the time that it takes over their mean distance.
func TestChanceOfBeingGivenUp(t *testing.T) {
	long.Test(t)
	// trial has a suspected page tried until it is read, or is given up, and says which. Next is when the next run is
	// killed.
	trial := func(takes time.Duration, next func() time.Duration) (crashed bool) {
		for ends, alone := aloneAfter, 0; alone < crashedAfter; ends++ {
			_, age := suspect(ends, alone)
			switch kill := next(); {
			case kill >= age+takes:
				return false
			case kill > age:
				alone++
			}
		}
		return true
	}
	for takes := 50 * time.Millisecond; takes < calm; takes += 450 * time.Millisecond {
		for every := calm; every < 8*calm; every += 10 * time.Millisecond {
			tries := 0
			if trial(takes, func() time.Duration {
				if tries++; tries > 10 {
					return time.Hour // the kills end
				}
				return every
			}) {
				t.Fatalf("a page that takes %v is given up by kills every %v", takes, every)
			}
		}
	}
	const takes = 100 * time.Millisecond
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, mean := range []time.Duration{calm, 2 * calm, 6 * calm} {
		const n = 2_000_000
		crashed := 0
		for range n {
			if trial(takes, func() time.Duration { return time.Duration(rnd.ExpFloat64() * float64(mean)) }) {
				crashed++
			}
		}
		bound := n * (takes.Seconds() / mean.Seconds()) * (takes.Seconds() / mean.Seconds())
		t.Logf("kills every %v: %d of %d given up, %.0f expected at most", mean, crashed, n, bound)
		if float64(crashed) > bound*1.3+3 { // the seed is fixed
			t.Errorf("kills every %v: %d of %d given up, want at most about %.0f", mean, crashed, n, bound)
		}
	}
}
