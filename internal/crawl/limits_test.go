package crawl

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A warning comes with the page that reaches 80 % and with the one that reaches 95 % of a limit, whatever the limit is,
// once each.
func TestPageWarnings(t *testing.T) {
	for limit := 1; limit <= 1000; limit++ {
		out := &bytes.Buffer{}
		log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string,
			a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}}))
		l := newLimits(&run{o: &Options{}, settings: &config.Settings{MaxURLs: limit}, log: log})
		var want []string
		at80, at95 := (limit*80+99)/100, (limit*95+99)/100
		if at80 < at95 {
			want = append(want, fmt.Sprintf("msg=\"80 %% of the page limit is used\" used=%d limit=%d", at80, limit))
		}
		want = append(want, fmt.Sprintf("msg=\"95 %% of the page limit is used\" used=%d limit=%d", at95, limit))
		for used := 1; used <= limit; used++ {
			l.pagesUsed(int64(used))
			l.pagesUsed(int64(used)) // the number may be seen twice
		}
		if got := strings.Split(strings.TrimSpace(out.String()), "\n"); !slices.Equal(got, want) {
			t.Fatalf("limit %d: %q, want %q", limit, got, want)
		}
	}
	newLimits(&run{settings: &config.Settings{}}).pagesUsed(1 << 40) // without a limit nothing is logged
}

// eventLog is a log handler that keeps each message with the time since the log was made.
type eventLog struct {
	slog.Handler
	from   time.Time
	mu     sync.Mutex
	events []event // guarded by mu
}

type event struct {
	at    time.Duration
	level slog.Level
	text  string
}

func newEventLog(t *testing.T) *eventLog {
	return &eventLog{Handler: testLog(t, slog.LevelInfo).Handler(), from: time.Now()}
}

// Handle implements [slog.Handler].
func (l *eventLog) Handle(ctx context.Context, r slog.Record) error {
	l.mu.Lock()
	l.events = append(l.events, event{r.Time.Sub(l.from), r.Level, r.Message})
	l.mu.Unlock()
	return l.Handler.Handle(ctx, r)
}

// about are the warnings whose text contains a word.
func (l *eventLog) about(word string) []event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.events), func(e event) bool {
		return e.level < slog.LevelWarn ||
			!strings.Contains(e.text, word)
	})
}

// inSlotOfItsOwn runs a test in a bubble, with a directory of its own for the slot of safe crawls.
func inSlotOfItsOwn(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	synctest.Test(t, test)
}

// A safe crawl stops after exactly 60 seconds, with its message, and warns at 80 % and 95 % of them. Settings that ask
// for more do not change that.
func TestSafeTimeCap(t *testing.T) {
	const message = "Safety limit: Crawl timeout exceeded (60000ms)"
	inSlotOfItsOwn(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{Pages: 60,
			Faults: testweb.OnAll(testweb.Slow{Delay: 1700 * time.Millisecond})})
		loaded, err := config.Load(config.Layer{
			config.SafeName: {Texts: []string{"true"}}, "duration": {Texts: []string{"1h"}},
			"grace": {Texts: []string{"1h"}}, "max-workers": {Texts: []string{"64"}},
			"max-urls": {Texts: []string{"1000"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		log := newEventLog(t)
		o := web.options(loaded.Settings, newDir(t), web.StartURLs()[0])
		o.Log = slog.New(log)
		rep, err := runAlone(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if rep.Status != page.Partial || rep.Success || rep.Reason != message ||
			!slices.Equal(rep.Errors, []string{message}) {
			t.Errorf("%s, success %v (%s), errors %q", rep.Status, rep.Success, rep.Reason, rep.Errors)
		}
		if rep.CrawlSeconds < 60 || rep.CrawlSeconds > 60.1 {
			t.Errorf("it crawled for %v s, want 60", rep.CrawlSeconds)
		}
		if pages := web.HostStats(0).Pages; pages < 20 || pages >= 50 {
			t.Errorf("%d pages were asked for: the time did not end the crawl", pages)
		}
		want := []event{{48 * time.Second, slog.LevelWarn, "80 % of the time limit is used"},
			{57 * time.Second, slog.LevelWarn, "95 % of the time limit is used"}}
		if got := log.about("time limit"); !slices.Equal(got, want) {
			t.Errorf("warned %v, want %v", got, want)
		}
		if got := log.about(message); len(got) != 1 || got[0].at != time.Minute {
			t.Errorf("logged %v, want the message once after a minute", got)
		}
	})
}

// A crawl that gets the caps of a safe one while it runs ends at them with their messages, and no other limit lifts
// them.
func TestCapSafe(t *testing.T) {
	for _, tt := range []struct {
		name, message string
		delay         time.Duration // of each page, one at a time
		success       bool
	}{
		{"time", "Safety limit: Crawl timeout exceeded (60000ms)", 2 * time.Second, false},
		{"pages", "Safety limit: Maximum 50 pages per crawl (requested: 150)", 400 * time.Millisecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSlotOfItsOwn(t, func(t *testing.T) {
				web := newMemoryWeb(t, testweb.Config{Pages: 200, Faults: testweb.OnAll(testweb.Slow{Delay: tt.delay})})
				s := quick(web.Server)
				s.MaxInflightPerHost, s.MaxURLs = 1, 150
				shared, err := NewShared(ForOneCrawl(s))
				if err != nil {
					t.Fatal(err)
				}
				defer shared.Close()
				c, err := newTested(shared, web.options(s, newDir(t), web.StartURLs()[0]))
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(10*time.Second, func() {
					c.CapSafe()
					c.CapSafe()
					c.Change(1000, time.Hour)
				})
				rep, err := c.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if rep.Status != page.Partial || rep.Success != tt.success || rep.Reason != tt.message ||
					!slices.Equal(rep.Errors, []string{tt.message}) {
					t.Errorf("%s, success %v (%s), errors %q after %v s", rep.Status, rep.Success, rep.Reason,
						rep.Errors, rep.CrawlSeconds)
				}
			})
		})
	}
}

// The warnings of a time limit come at their moments, before the end, however short it is.
func TestTimeWarnings(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, 5 * time.Second, 37 * time.Second} {
		inBubble := func(t *testing.T) {
			web := newMemoryWeb(t, testweb.Config{Pages: 200,
				Faults: testweb.OnAll(testweb.Slow{Delay: 300 * time.Millisecond})})
			s := config.Defaults(config.Polite)
			s.Duration = limit
			log := newEventLog(t)
			o := web.options(s, newDir(t), web.StartURLs()[0])
			o.Log = slog.New(log)
			if _, err := runAlone(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			want := []event{{limit * 80 / 100, slog.LevelWarn, "80 % of the time limit is used"},
				{limit * 95 / 100, slog.LevelWarn, "95 % of the time limit is used"}}
			if got := log.about("limit is used"); !slices.Equal(got, want) {
				t.Errorf("limit %v: warned %v, want %v", limit, got, want)
			}
		}
		t.Run(limit.String(), func(t *testing.T) { synctest.Test(t, inBubble) })
	}
}

// On a busy machine the supervisor may begin to watch when the time is over. It warns all the same, unless an earlier
// run has.
func TestTimeWarningsOfALateStart(t *testing.T) {
	for before, want := range map[time.Duration][]string{
		0:                      {"80 % of the time limit is used", "95 % of the time limit is used"},
		900 * time.Millisecond: {"95 % of the time limit is used"}, 999 * time.Millisecond: nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			log, ends := newEventLog(t), &endings{stop: &stopSignal{}}
			settings := &config.Settings{Duration: time.Second}
			r := &run{o: &Options{}, settings: settings, log: slog.New(log), endings: ends, clock: clock{before: before}}
			r.limits = newLimits(r)
			r.clock.begin()
			time.Sleep(2 * time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			go r.supervise(ctx, func() {}, func() {})
			synctest.Wait()
			cancel()
			var got []string
			for _, e := range log.about("limit is used") {
				got = append(got, e.text)
			}
			if !slices.Equal(got, want) || ends.get().status != page.Partial {
				t.Errorf("%v before: warned %q, want %q; ended %+v", before, got, want, ends.get())
			}
		})
	}
}

func TestTimeMarks(t *testing.T) {
	for _, d := range []time.Duration{1, 3, 99, time.Second, 5 * time.Second, 37 * time.Millisecond, time.Minute,
		100*24*time.Hour + 7, 1<<63 - 1} {
		l := &limits{}
		l.change(0, d)
		marks := l.timeMarks()
		if len(marks) != 3 || marks[2] != d || !slices.IsSorted(marks) {
			t.Errorf("%v: %v", d, marks)
		}
		for i, share := range []float64{0.8, 0.95} {
			if off := marks[i].Seconds() - d.Seconds()*share; off > 1e-6*d.Seconds() || off < -1e-6*d.Seconds()-1e-9 {
				t.Errorf("%v: the mark at %v is %v", d, share, marks[i])
			}
		}
	}
	if marks := (&limits{}).timeMarks(); marks != nil {
		t.Errorf("without a limit: %v", marks)
	}
}

// A page limit that leaves sitemaps unread has cut something off, though no page is pending: they may name further
// ones.
func TestPageLimitBeforeSitemapsAreRead(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.test/": plainPage, "a.test/1": plainPage, "a.test/2": plainPage,
		"a.test/robots.txt": "Sitemap: /sitemap.xml\n", "a.test/sitemap.xml": urlset("http://a.test/1",
			"http://a.test/2"),
	})
	dir := newDataDir(t)
	rep, _ := s.crawl(dir, func(o *config.Settings) { o.MaxURLs = 1 }, "http://a.test/")
	if rep.Status != page.Partial || rep.Outcomes["ok"] != 1 {
		t.Errorf("first run: %s (%s), %v, want it to be partial", rep.Status, rep.Reason, rep.Outcomes)
	}
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	rep, _ = s.run(Options{Settings: s.settings(nil), Plan: plan, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if rep.Status != page.Complete || rep.Outcomes["ok"] != 3 {
		t.Errorf("second run: %s, %v", rep.Status, rep.Outcomes)
	}
}
