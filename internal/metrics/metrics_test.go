package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestNamesFollowTheConventions(t *testing.T) {
	m := New()
	exercise(m)
	m.Gauge("control_limit", "The limit of a control.", func() float64 { return 1 }, "control", "workers")
	m.Counter("fsyncs_total", "Fsyncs of the log.", func() float64 { return 1 })
	problems, err := testutil.GatherAndLint(m.Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestNilTakesEverything(t *testing.T) {
	exercise(nil)
	(*Metrics)(nil).Gauge("x", "x", nil)
	(*Metrics)(nil).Counter("x_total", "x", nil)
}

func exercise(m *Metrics) {
	m.Page("ok")
	m.Fetched(time.Second, 0, 0, time.Second, time.Second, 5)
	m.Failed("timeout")
	m.Skipped("too_deep", 2)
	m.Robots(true)
	m.Pace("rested")
	m.Commit("durable", time.Second)
	m.Checkpoint(time.Second)
	m.Governor("shrink")
	m.Pause()
}
