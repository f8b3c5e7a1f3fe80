package pace

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestEffectString(t *testing.T) {
	if got := (EffectRested | EffectSlowed).String(); got != "rested, slowed" {
		t.Errorf("%q", got)
	}
	if got := Effect(0).String(); got != "" {
		t.Errorf("%q", got)
	}
	if got := EffectCrawlDelayLong.String(); got != "crawl-delay long" {
		t.Errorf("the last effect is called %q", got)
	}
}

func TestChangeLogValue(t *testing.T) {
	w := newWalk(t, Polite())
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	line := func() string {
		out.Reset()
		log.Info("pace changed", "pace", w.last)
		return out.String()
	}
	w.refused(0, ClassThrottled, 7*time.Second)
	for _, want := range []string{`effects="rested, slowed"`, "delay_from=0s", "delay=1s", "rest_until=", "refusals=1",
		"retry_after=7s"} {
		if got := line(); !strings.Contains(got, "pace."+want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	w.do(10*time.Second, ClassNetwork)
	if got := line(); !strings.Contains(got, "pace.failures=1") || strings.Contains(got, "rest_until") {
		t.Errorf("line of a failure: %s", got)
	}
	w.pace, w.last = w.pace.WithCrawlDelay(&w.cfg, 2*time.Minute)
	if got := line(); !strings.Contains(got, "pace.crawl_delay=2m0s") || !w.last.Notable() {
		t.Errorf("line of a long crawl delay: %s", got)
	}
	w.do(time.Hour, ClassOK) // ends the row of failures
	w.do(time.Hour, ClassOK)
	if w.last.Notable() {
		t.Errorf("a success is notable: %+v", w.last)
	}
	if (Change{Effects: EffectWindowGrew}).Notable() {
		t.Error("growth of a window is notable")
	}
}

// safe is one request at a time.
func safe() Config {
	return Config{MinDelay: 200 * time.Millisecond, MaxDelay: 500 * time.Millisecond, MaxInflight: 1}.WithDefaults()
}

func TestPaceConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"zero": {}, "polite": Polite(), "own site": OwnSite(), "safe": safe(),
		"one in flight, adaptive": {Adaptive: true, MaxInflight: 1},
	} {
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if full := cfg.WithDefaults(); full != full.WithDefaults() {
			t.Errorf("%s: defaults of defaults differ", name)
		}
	}
	for want, cfg := range map[string]Config{
		"min delay":         {MinDelay: -1},
		"max delay":         {MinDelay: 2, MaxDelay: 1},
		"base delay":        {BaseDelay: 48 * time.Hour},
		"max in flight":     {MaxInflight: -1},
		"min in flight":     {MinInflight: 3, MaxInflight: 2},
		"adaptive step":     {Step: 1},
		"max learned delay": {MaxLearned: -1},
		"probe after":       {ProbeAfter: -1},
		"max host backoff":  {MaxBackoff: -1},
		"max host failures": {MaxFailures: 256},
	} {
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v, want one about %s", cfg, err, want)
		}
	}
	err := Config{MinDelay: -1, MaxFailures: 999, Step: -1}.Validate()
	if n := strings.Count(err.Error(), "\n") + 1; n != 3 {
		t.Errorf("%d faults named, want 3: %v", n, err)
	}
}
