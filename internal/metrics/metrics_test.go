package metrics

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func someLabels() Labels {
	return Labels{Failures: []string{"timeout", "dns_error"}, Changes: []string{"slowed", "probed"}}
}

func TestNamesFollowTheConventions(t *testing.T) {
	m := New(someLabels())
	exercise(m)
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
	if s, err := (*Metrics)(nil).Snapshot(); s != nil || err != nil {
		t.Errorf("a snapshot of nothing is %v, %v", s, err)
	}
}

// exercise calls everything.
func exercise(m *Metrics) {
	m.Fetched(time.Second, 0, 0, time.Second, time.Second, 5)
	m.Count(Failures, "timeout")
	m.Count(Refusals, "429")
	m.Count(Robots, "unknown")
	m.Count(Robots, "known")
	m.Count(Changes, "slowed")
	for _, name := range []Name{Rests, Backoffs, Retries, Overrides, Blocked, Abandoned} {
		m.Count(name, "")
	}
	m.Observe(Commits, "durable", time.Second)
	m.Observe(Checkpoints, "", time.Second)
	m.Count(Governor, "shrink")
	m.Read([]Figure{{Name: "things_total", Help: "Things."}, {Name: "rooms", Help: "Rooms.", Label: "floor"}},
		func(put Put) error {
			put(0, 3, "")
			put(1, 4, "first")
			put(1, 5, "second")
			return nil
		})
}

// Whatever is counted, no label gets a value that was not known from the start.
func TestLabelsAreBounded(t *testing.T) {
	m := New(someLabels())
	before := testutil.CollectAndCount(m.Registry())
	for i := range 100 {
		strange := fmt.Sprintf("h%d.test", i)
		m.Count(Failures, strange)
		m.Count(Refusals, strange)
		m.Count(Governor, strange)
		m.Observe(Commits, strange, time.Second)
		m.Count(Changes, strange)
	}
	if after := testutil.CollectAndCount(m.Registry()); after != before {
		t.Errorf("%d series became %d", before, after)
	}
}

func TestSnapshot(t *testing.T) {
	m := New(someLabels())
	exercise(m)
	s, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"mapwright_things_total":3`, `"mapwright_rooms":{"first":4,"second":5}`, `"mapwright_fetched_bytes_total":5`,
		`"mapwright_fetch_failures_total":{"dns_error":0,"other":0,"timeout":1}`, `"wait":{"count":1,"sum":1}`,
		`"process_resident_memory_bytes":`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the snapshot lacks %s: %s", want, text)
		}
	}
	if strings.Contains(string(text), `"go_`) {
		t.Error("the snapshot has figures of the Go runtime")
	}
}

func TestServe(t *testing.T) {
	m := New(someLabels())
	healthy := error(nil)
	s, err := m.Serve("127.0.0.1:0", func() any { return map[string]int{"found": 7} }, func() error { return healthy })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	}()
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get("http://" + s.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for path, want := range map[string]string{
		"/metrics": "mapwright_fetched_bytes_total 0", "/status": `{"found":7}`, "/healthz": "ok", "/": "/metrics",
		"/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "metrics",
	} {
		if code, body := get(path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, without %q in %.200s", path, code, want, body)
		}
	}
	if code, _ := get("/nothing"); code != http.StatusNotFound {
		t.Errorf("/nothing: status %d", code)
	}
	healthy = fmt.Errorf("the crawl has not begun")
	if code, body := get("/healthz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "has not begun") {
		t.Errorf("/healthz of an unhealthy crawl: status %d, %s", code, body)
	}
	if _, err := m.Serve(s.Addr(), nil, nil); err == nil {
		t.Error("two servers on one address")
	}
}

// BenchmarkPage is what the metrics of one page cost its worker.
func BenchmarkPage(b *testing.B) {
	m := New(someLabels())
	b.ReportAllocs()
	for b.Loop() {
		m.Fetched(0, 0, 0, 700*time.Microsecond, 900*time.Microsecond, 10240)
	}
}
