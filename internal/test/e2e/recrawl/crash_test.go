package recrawl

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

const (
	// recrawls is how many generations after the first crawl are killed.
	recrawls = 5
	// recrawlKills is how often the recrawls of one data directory are killed.
	recrawlKills = 20
)

// killedWebs are webs that change: one with every kind of change and validators that are right, and one with hosts
// whose answers 304 are false.
func killedWebs(seed uint64) map[string]testweb.Config {
	slow := testweb.OnAll(testweb.Slow{Delay: time.Millisecond, Jitter: 6 * time.Millisecond})
	return map[string]testweb.Config{
		"kinds": {
			Seed: seed, Hosts: 3, Pages: 40, PageSize: 3000, Links: 6, CrossHost: 0.2,
			Sitemaps: &testweb.Sitemaps{Orphans: 2}, Changes: visitedAgain(),
			Faults: slices.Concat(slow, testweb.On("1", testweb.Validators{Mode: "gzip_suffix"}),
				testweb.On("2", testweb.Validators{Mode: "none"}), testweb.OnAll(
					testweb.Disallow{Count: 2}, testweb.StatusPages{}, testweb.RedirectChain{Length: 3},
					testweb.NoIndex{},
					testweb.Files{},
				)),
		},
		"false answers": { // so many pages change that one of the first ten answers of a host shows it
			Seed: seed, Hosts: 2, Pages: 40, PageSize: 3000, Links: 6, CrossHost: 0.2,
			Changes: &testweb.Changes{Always: 0.8, Vanish: 0.1, Move: 0.05},
			Faults:  slices.Concat(slow, testweb.OnAll(testweb.Validators{Mode: "bare_304"})),
		},
	}
}

// recrawled is what a crawl and its recrawls left, without what depends on the moment.
type recrawled struct {
	urls    map[string]string
	changes []string // of all generations
	report  map[string]any
}

func recrawledIn(t *testing.T, dir string) recrawled {
	t.Helper()
	r := recrawled{urls: map[string]string{}}
	for url, l := range e2e.ReadLines(t, dir) {
		r.urls[url] = fmt.Sprintf("%s %d %q %q %q text %s, %v %s, generation %d, %s, changed %v, stale %d, volatile "+
			"%v, lastmod %s",
			l.Outcome, l.StatusCode, l.RedirectTo, l.Title, l.CanonicalURL, l.TextHash, l.Indexable, l.IndexableReason,
			l.Generation, l.Change, l.ChangedAt != "", l.Stale, l.Volatile, l.LastModified)
	}
	printed := e2e.Run(t, "changes", "--json", "--since", "1", "--data-dir", dir)
	e2e.Succeeded(t, printed)
	for row := range strings.Lines(printed.Stdout) {
		var c map[string]any
		if err := json.Unmarshal([]byte(row), &c); err != nil {
			t.Fatal(err)
		}
		delete(c, "checked_at")
		r.changes = append(r.changes, e2e.MustJSON(t, c))
	}
	slices.Sort(r.changes)
	var all map[string]any
	e2e.ReadJSON(t, dir, "report.json", &all)
	r.report = map[string]any{}
	for _, name := range []string{"status", "reason", "generation", "changes", "changed_fields", "urls", "outcomes",
		"status_classes", "indexable", "not_indexable"} {
		r.report[name] = all[name]
	}
	return r
}

// same compares with what recrawls left that were never killed.
func (r recrawled) same(t *testing.T, want recrawled) {
	t.Helper()
	e2e.SameStory(t, r.urls, want.urls)
	for _, c := range r.changes {
		if !slices.Contains(want.changes, c) {
			t.Errorf("a change that was not found without kills: %s", c)
		}
	}
	for _, c := range want.changes {
		if !slices.Contains(r.changes, c) {
			t.Errorf("a change that is not found: %s", c)
		}
	}
	if len(r.changes) != len(want.changes) {
		t.Errorf("%d changes, want %d", len(r.changes), len(want.changes))
	}
	for name := range want.report {
		if !reflect.DeepEqual(r.report[name], want.report[name]) {
			t.Errorf("the report says %s %v, want %v", name, r.report[name], want.report[name])
		}
	}
}

// Recrawls that are killed anywhere, over five generations, and resumed, end as recrawls that were never killed: the
// same facts, generations and changes.
func TestCrashRecrawl(t *testing.T) {
	t.Parallel()
	seed := *e2e.CrashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crash-seed %d", seed)
	for name, cfg := range killedWebs(seed % 8) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, requests, took := wholeRecrawls(t, cfg)
			if t.Failed() {
				t.FailNow()
			}
			for n, left := 0, (*e2e.Crashes+1)/2; left > 0; n, left = n+1, left-recrawlKills {
				t.Run(fmt.Sprint("series ", n), func(t *testing.T) {
					t.Parallel()
					k := &recrawlKiller{rnd: rand.New(rand.NewPCG(seed, uint64(n))),
						s: newSeries(t, cfg, "--max-inflight-per-host", "3", "--timeout", "1h"), requests: requests,
						took: took}
					for kills := min(left, recrawlKills); kills > 0 && !t.Failed(); {
						killed := k.series(t, kills)
						t.Logf("killed %d times", killed)
						recrawledIn(t, k.s.dir).same(t, want)
						if killed == 0 {
							t.Error("no recrawl was killed before its end")
						}
						kills -= killed
						k.s = newSeries(t, cfg, "--max-inflight-per-host", "3", "--timeout", "1h")
					}
				})
			}
		})
	}
}

// wholeRecrawls is what recrawls find that are never killed, and how many requests for pages one of them makes in which
// time.
func wholeRecrawls(t *testing.T, cfg testweb.Config) (_ recrawled, requests int, took time.Duration) {
	t.Helper()
	s := newSeries(t, cfg, "--max-inflight-per-host", "3", "--timeout", "1h")
	for generation := range recrawls + 1 {
		got := s.run(t, generation)
		rep := e2e.Ended(t, got, s.dir, 0, "complete", "")
		requests, took = e2e.Pages(s.web), got.Took
		t.Logf("generation %d: %d requests for pages in %v, outcomes %v", generation, requests,
			got.Took.Round(time.Millisecond), rep.Outcomes)
	}
	return recrawledIn(t, s.dir), requests, took
}

// recrawlKiller kills the recrawls of a series.
type recrawlKiller struct {
	rnd      *rand.Rand
	s        *crawlSeries
	requests int // of a recrawl that is not killed
	took     time.Duration
	killed   int // all recrawls of the series
}

// series crawls and recrawls, and kills the recrawls up to so many times. It returns how often they were killed before
// they were done.
func (k *recrawlKiller) series(t *testing.T, most int) (killed int) {
	t.Helper()
	e2e.Ended(t, k.s.run(t, 0), k.s.dir, 0, "complete", "")
	k.killed = 0
	for generation := 1; generation <= recrawls && !t.Failed(); generation++ {
		k.recrawl(t, generation, (most-k.killed+recrawls-generation)/(recrawls+1-generation))
	}
	return k.killed
}

// recrawl recrawls one generation of the web, and kills that up to so many times.
func (k *recrawlKiller) recrawl(t *testing.T, generation, most int) {
	t.Helper()
	if err := k.s.web.SetGeneration(generation); err != nil {
		t.Fatal(err)
	}
	args := []string{"recrawl", "--data-dir", k.s.dir}
	for kills := 0; kills < most; kills++ {
		got := k.kill(t, append(args, e2e.Whim(k.rnd)...), kills)
		if got.Code == 0 {
			return // it was done before
		}
		if got.Code != -1 {
			t.Fatalf("exit status %d, want 0", got.Code)
		}
		k.killed++
		if e2e.Status(t, k.s.dir).Generation == generation {
			args = []string{"resume", "--data-dir", k.s.dir}
		}
		t.Logf("generation %d was killed after %d requests and %v; next is %s", generation, e2e.Pages(k.s.web),
			got.Took.Round(time.Millisecond), args[0])
	}
	e2e.Ended(t, e2e.Run(t, append(args, e2e.Whim(k.rnd)...)...), k.s.dir, 0, "complete", "")
}

// kill runs a recrawl that was killed so often before, and kills it: at any moment, which may be after its end, or
// after some pages, which is before its end if as many are left. The first recrawl of a series is killed for certain.
func (k *recrawlKiller) kill(t *testing.T, args []string, kills int) e2e.Result {
	t.Helper()
	if k.killed > 0 && kills < e2e.KillsAnywhere && k.rnd.IntN(2) == 0 {
		p := e2e.Start(t, args...)
		k.pause(p, k.took+k.took/4)
		return p.Kill()
	}
	more := 30 + k.rnd.IntN(k.requests/2)
	enough := e2e.Pages(k.s.web) + more
	k.s.web.Hold(more)
	defer k.s.web.Release()
	p := e2e.Start(t, args...)
	p.UntilEnded(func() bool { return e2e.Pages(k.s.web) > enough })
	if kills >= e2e.KillsAnywhere {
		p.Settle(k.s.dir)
	}
	k.pause(p, 20*time.Millisecond)
	return p.Kill()
}

// pause waits for a time up to the given one, or for the end of the program.
func (k *recrawlKiller) pause(p *e2e.Process, most time.Duration) {
	select {
	case <-time.After(time.Duration(k.rnd.Int64N(int64(most)))):
	case <-p.Done:
	}
}
