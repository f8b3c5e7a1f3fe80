package pace

import (
	"fmt"
	"testing"
	"time"
	"unsafe"
)

const (
	ms = time.Millisecond
	us = time.Microsecond
)

// TestAdaptiveThroughput holds the adaptive window against the best of the fixed
// ones, on hosts with and without a capacity of their own and on machines of ours
// with and without time to spare.
func TestAdaptiveThroughput(t *testing.T) {
	for _, tc := range []struct {
		name string
		host simHost
		cpu  simClient
		most int // the window must not end above: more would only be a queue
	}{
		{"copes with all, 100 ms", simHost{net: 20 * ms, service: 80 * ms}, simClient{cores: 2, cost: 300 * us}, 150},
		{"copes with all, 5 ms", simHost{net: ms, service: 4 * ms}, simClient{cores: 2, cost: ms}, 150},
		{"copes with all, 5 ms, lag unknown", simHost{net: ms, service: 4 * ms},
			simClient{cores: 2, cost: ms, blind: true}, 150},
		{"8 servers", simHost{net: 5 * ms, service: 20 * ms, servers: 8}, simClient{cores: 2, cost: 100 * us}, 24},
		{"32 slow servers", simHost{net: 50 * ms, service: 100 * ms, servers: 32}, simClient{cores: 2, cost: 100 * us},
			100},
		{"1 server", simHost{net: 5 * ms, service: 20 * ms, servers: 1}, simClient{cores: 2, cost: 100 * us}, 8},
		{"on this machine", simHost{net: 20 * us, service: 500 * us},
			simClient{cores: 2, cost: ms, blind: true, home: true}, 40},
		{"on this crowded machine", simHost{net: 20 * us, service: 200 * us},
			simClient{cores: 2, cost: 300 * us, blind: true, home: true, crowded: 10}, 40},
		{"5 ms, crowded", simHost{net: ms, service: 5 * ms}, simClient{cores: 2, cost: 300 * us, crowded: 10}, 150},
		{"5 ms, crowded, lag unknown", simHost{net: ms, service: 5 * ms},
			simClient{cores: 2, cost: 300 * us, blind: true, crowded: 10}, 150},
		{"30 ms, crowded, lag unknown", simHost{net: ms, service: 30 * ms},
			simClient{cores: 2, cost: 400 * us, blind: true, crowded: 5}, 150},
	} {
		t.Run(tc.name, func(t *testing.T) {
			best, at := 0, 0
			for _, w := range []int{4, 16, 50, 150} {
				s := simulation{cfg: Config{MaxInflight: w}.WithDefaults(), host: tc.host, cpu: tc.cpu}
				if n := simTotal(s.run(4*time.Second), 1, 4).done * 5; n > best {
					best, at = n, w
				}
			}
			s := simulation{cfg: OwnSite(), host: tc.host, cpu: tc.cpu}
			got := simTotal(s.run(20*time.Second), 5, 20)
			t.Logf("%d/s, best %d/s at %d; window %d", got.done/15, best/15, at, got.window)
			if float64(got.done) < 0.8*float64(best) {
				t.Errorf("%d answers, want 0.8 of %d, the best with a fixed window of %d", got.done, best, at)
			}
			if got.window > tc.most {
				t.Errorf("window ends at %d, want at most %d", got.window, tc.most)
			}
		})
	}
}

func TestAdaptiveFindsLimit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit int
		host  simHost
	}{
		{"1", 1, simHost{net: 5 * ms, service: 20 * ms}},
		{"3", 3, simHost{net: 5 * ms, service: 20 * ms}},
		{"8", 8, simHost{net: 5 * ms, service: 20 * ms}},
		{"8, fast", 8, simHost{net: 200 * us, service: 6 * ms}},
		{"8, slow", 8, simHost{net: 50 * ms, service: 500 * ms}},
		{"40", 40, simHost{net: 5 * ms, service: 50 * ms}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.host.limit = tc.limit
			cpu := simClient{cores: 2, cost: 100 * us}
			fixed := simulation{cfg: Config{MaxInflight: tc.limit}.WithDefaults(), host: tc.host, cpu: cpu}
			best := simTotal(fixed.run(12*time.Second), 2, 12).done * 5
			s := simulation{cfg: OwnSite(), host: tc.host, cpu: cpu}
			ticks := s.run(70 * time.Second)
			early, late := simTotal(ticks, 0, 20), simTotal(ticks, 20, 70)
			t.Logf("refused %d of %d, then %d of %d; %.2f of the best fixed window", early.refused, early.done,
				late.refused, late.done, float64(late.done)/float64(best))
			if late.refused*200 > late.done {
				t.Errorf("%d of %d refused after 20 s, want at most 1 in 200", late.refused, late.done)
			}
			if float64(late.done) < 0.8*float64(best) {
				t.Errorf("%d answers, want 0.8 of %d", late.done, best)
			}
			if got := s.pace.Learned().Delay; got != 0 {
				t.Errorf("learned a delay of %v from a limit on concurrency", got)
			}
		})
	}
}

// TestAdaptiveFollowsRisingLimit lets a host take back its limit.
func TestAdaptiveFollowsRisingLimit(t *testing.T) {
	s := simulation{
		cfg:  OwnSite(),
		host: simHost{net: 5 * ms, service: 50 * ms, limit: 6, limitTo: 20 * time.Second},
		cpu:  simClient{cores: 2, cost: 100 * us},
	}
	ticks := s.run(60 * time.Second)
	if w := ticks[19].window; w > 6 {
		t.Errorf("window %d at a limit of 6", w)
	}
	if w := ticks[59].window; w < 100 {
		t.Errorf("window %d when there has been no limit for 40 s", w)
	}
}

func TestAdaptiveBacksOffWhenLatencyDoubles(t *testing.T) {
	for _, tc := range []struct {
		name    string
		servers int
	}{{"host with room", 0}, {"host at its limit", 64}} {
		t.Run(tc.name, func(t *testing.T) {
			s := simulation{
				cfg: OwnSite(),
				host: simHost{
					net: ms, service: 40 * ms, servers: tc.servers,
					slower: 2.1, slowAt: 15 * time.Second, slowTo: 30 * time.Second,
				},
				cpu: simClient{cores: 2, cost: 100 * us},
			}
			ticks := s.run(50 * time.Second)
			mean := func(from, to int) (w int) {
				for _, k := range ticks[from:to] {
					w += k.window
				}
				return w / (to - from)
			}
			before, during, after := mean(10, 15), mean(18, 28), mean(45, 50)
			t.Logf("window %d, %d when slower, %d when as before", before, during, after)
			if during*4 > before*3 {
				t.Errorf("window %d when latency doubled, %d before", during, before)
			}
			if after*3 < before*2 {
				t.Errorf("window %d when latency is as before, was %d", after, before)
			}
		})
	}
}

// TestAdaptiveBusyClient makes our own machine eight times as busy.
func TestAdaptiveBusyClient(t *testing.T) {
	host := simHost{net: 5 * ms, service: 100 * ms}
	for _, blind := range []bool{false, true} {
		cpu := simClient{cores: 2, cost: 250 * us, blind: blind, busyAt: 10 * time.Second, busier: 8}
		fixed := simulation{cfg: Config{MaxInflight: 150}.WithDefaults(), host: host, cpu: cpu}
		best := simTotal(fixed.run(20*time.Second), 12, 20).done
		s := simulation{cfg: OwnSite(), host: host, cpu: cpu}
		ticks := s.run(20 * time.Second)
		if got := simTotal(ticks, 12, 20).done; float64(got) < 0.8*float64(best) {
			t.Errorf("blind=%v: %d answers once busy, want 0.8 of %d", blind, got, best)
		}
		if before, now := ticks[9].window, ticks[19].window; !blind && now < before*9/10 {
			t.Errorf("window %d, was %d before our own machine got busy", now, before)
		}
	}
}

// TestPaceLearnsRateLimit crawls hosts that refuse more than so many at once and
// so many a second.
func TestPaceLearnsRateLimit(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		host simHost
	}{
		{"polite, 2 at once and 3 a second", Polite(), simHost{net: 10 * ms, service: 50 * ms, limit: 2, perSec: 3}},
		{"polite, slow", Polite(), simHost{net: 10 * ms, service: 900 * ms, limit: 2, perSec: 3}},
		{"polite, 1 at once", Polite(), simHost{net: 10 * ms, service: 700 * ms, limit: 1}},
		{"own site, 3 a second", OwnSite(), simHost{net: 10 * ms, service: 50 * ms, perSec: 3}},
		{"own site, 2 at once and 3 a second", OwnSite(), simHost{net: 10 * ms, service: 50 * ms, limit: 2, perSec: 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := simulation{cfg: tc.cfg, host: tc.host, cpu: simClient{cores: 2, cost: 100 * us}}
			ticks := s.run(1200 * time.Second)
			early, late := simTotal(ticks, 0, 120), simTotal(ticks, 120, 1200)
			t.Logf("refused %d of %d, then %d of %d; learned %+v", early.refused, early.done, late.refused, late.done,
				s.pace.Learned())
			if late.refused*100 > late.done {
				t.Errorf("%d of %d refused once the pace was learned", late.refused, late.done)
			}
			if late.done < 1080*4/10 {
				t.Errorf("only %d answers in 1080 s", late.done)
			}
		})
	}
}

// TestPaceOutlastsOutages crawls a host that refuses everything for a while, again and again, whatever the pace. The
// crawl waits out each outage, and has at least half of the pages that the host would have served by the first pace.
func TestPaceOutlastsOutages(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		host simHost
	}{
		{"polite, 2 s of 10", Polite(), simHost{down: 2 * time.Second, period: 10 * time.Second,
			retryAfter: 2 * time.Second}},
		{"polite, asks for longer", Polite(), simHost{down: 3 * time.Second, period: 30 * time.Second,
			retryAfter: 10 * time.Second}},
		{"own site, 5 s of 40", OwnSite(), simHost{servers: 1, down: 5 * time.Second, period: 40 * time.Second,
			retryAfter: 5 * time.Second}},
	} {
		for _, learned := range []time.Duration{0, 8 * time.Second} {
			t.Run(fmt.Sprintf("%s, learned %v", tc.name, learned), func(t *testing.T) {
				tc.host.net, tc.host.service, tc.host.refusal = 10*ms, 50*ms, ClassUnavailable
				s := simulation{cfg: tc.cfg, host: tc.host, cpu: simClient{cores: 2, cost: 100 * us}}
				s.pace = s.pace.Restore(&s.cfg, Learned{Delay: learned}, simTime(0))
				late := simTotal(s.run(time.Hour), 1800, 3600)
				t.Logf("%d answers and %d refusals in half an hour; learned %+v", late.done, late.refused,
					s.pace.Learned())
				if got := s.pace.Learned().Delay; got != 0 {
					t.Errorf("learned delay %v after an hour, want 0", got)
				}
				up := 1800 * float64(tc.host.period-tc.host.down) / float64(tc.host.period)
				if most := up / 0.35; float64(late.done) < most/2 {
					t.Errorf("%d answers in half an hour, want at least half of %.0f", late.done, most)
				}
			})
		}
	}
}

// TestPaceLearnsFromUnavailable crawls hosts that refuse more than so many a second by a 503 with Retry-After.
func TestPaceLearnsFromUnavailable(t *testing.T) {
	for name, cfg := range map[string]Config{"polite": Polite(), "own site": OwnSite()} {
		t.Run(name, func(t *testing.T) {
			host := simHost{net: 10 * ms, service: 50 * ms, perSec: 1, refusal: ClassUnavailable,
				retryAfter: 2 * time.Second}
			s := simulation{cfg: cfg, host: host, cpu: simClient{cores: 2, cost: 100 * us}}
			late := simTotal(s.run(1200*time.Second), 120, 1200)
			if late.refused*20 > late.done {
				t.Errorf("%d refusals for %d answers; learned %+v", late.refused, late.done, s.pace.Learned())
			}
		})
	}
}

func TestAdaptiveWindowBounds(t *testing.T) {
	cfg := Config{Adaptive: true, MinInflight: 3, MaxInflight: 7}.WithDefaults()
	var p Pace
	if got := p.Limit(&cfg); got != 1 {
		t.Errorf("a new window is %d, want 1: a host of a few pages needs no second connection", got)
	}
	now := simTime(0)
	for n := range 2 * roundAnswers {
		if now = now.Add(10 * ms); n < roundAnswers/4-1 && p.Limit(&cfg) != 1 {
			t.Fatalf("the window is %d after %d answers", p.Limit(&cfg), n)
		}
		p, _ = p.Apply(&cfg, Event{Class: ClassOK, Start: now.Add(-10 * ms), Now: now, Latency: 10 * ms, Inflight: 1,
			Slots: 1})
	}
	if got := p.Limit(&cfg); got != 3 {
		t.Errorf("the window is %d after the first answers, want 3", got)
	}
	s := simulation{cfg: cfg, host: simHost{net: ms, service: 10 * ms}, cpu: simClient{cores: 1, cost: us}}
	for i, k := range s.run(5 * time.Second) {
		if k.window > 7 || i > 0 && k.window < 3 {
			t.Errorf("window %d in second %d", k.window, i)
		}
	}
	if got := s.pace.Limit(&cfg); got != 7 {
		t.Errorf("window %d of a host that copes, want 7", got)
	}
}

// TestAdaptiveNeedsWork: a window that is not full teaches nothing.
func TestAdaptiveNeedsWork(t *testing.T) {
	for _, tc := range []struct {
		name            string
		inflight, slots int
		grows           bool
	}{
		{"little to do", 1, 1, false},
		{"nearly enough to do", 7, 7, false},
		{"enough", 8, 8, true},
		{"enough, but answers wait for us", 1, 8, true},
		{"slots unknown, most on the wire", 5, 0, true},
		{"slots unknown, few on the wire", 3, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := OwnSite()
			p := Pace{window: aimd{size: 8, steady: true}}
			now, grew := simTime(0), false
			for range 100 {
				now = now.Add(10 * ms)
				var ch Change
				p, ch = p.Apply(&cfg, Event{
					Class: ClassOK, Start: now.Add(-10 * ms), Now: now, Latency: 10 * ms,
					Inflight: tc.inflight, Slots: tc.slots,
				})
				grew = grew || ch.Has(EffectWindowGrew)
			}
			if grew != tc.grows {
				t.Errorf("grew = %v", grew)
			}
		})
	}
}

func TestAdaptiveRefusals(t *testing.T) {
	cfg := OwnSite()
	start := simTime(0)
	p := Pace{window: aimd{size: 40}}
	refuse := func(after time.Duration, inflight int) Change {
		t.Helper()
		at := start.Add(after)
		var ch Change
		p, ch = p.Apply(&cfg, Event{Class: ClassThrottled, Start: at, Now: at.Add(10 * ms), Inflight: inflight})
		return ch
	}
	check := func(what string, limit int, delay time.Duration) {
		t.Helper()
		if p.Limit(&cfg) != limit || p.Learned().Delay != delay {
			t.Errorf("%s: %d in flight and %v learned, want %d and %v", what, p.Limit(&cfg), p.Learned().Delay, limit,
				delay)
		}
	}
	refuse(0, 33)
	check("a refusal among many", 20, 0)
	refuse(ms, 40)
	check("another of the same rest", 20, 0)
	if p.window.ceiling != 32 {
		t.Errorf("ceiling %d after a refusal with 33 in flight", p.window.ceiling)
	}
	refuse(2*time.Second, 20)
	check("a refusal after the rest", 10, 0)
	refuse(10*time.Second, 2)
	check("a refusal while few were in flight", 5, 0)
	for i, want := range []int{2, 1, 1} {
		refuse(time.Duration(i+1)*time.Minute, 2)
		check("down to one", want, 0)
	}
	ch := refuse(5*time.Minute, 1)
	check("a refusal at one in flight", 1, time.Second)
	if !ch.Has(EffectSlowed) {
		t.Errorf("effects %v, want slowed", ch.Effects)
	}
}

func TestAdaptiveFailures(t *testing.T) {
	cfg := OwnSite()
	for _, tc := range []struct {
		class Class
		want  int
	}{{ClassNetwork, 20}, {ClassServerError, 40}, {ClassOurs, 40}, {ClassNone, 40}} {
		p := Pace{window: aimd{size: 40}}
		for i := range uint64(3) { // of one burst
			p, _ = p.Apply(&cfg, Event{Class: tc.class, Start: simTime(0), Now: simTime(ms), URL: i, Inflight: 40})
		}
		if got := p.Limit(&cfg); got != tc.want {
			t.Errorf("class %d: window %d, want %d", tc.class, got, tc.want)
		}
	}
}

// TestPaceIsSmall: there may be half a million in memory.
func TestPaceIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(Pace{}); got > 256 {
		t.Errorf("a Pace takes %d bytes", got)
	}
}
