package crash

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

var soak = flag.Duration("soak", 2*time.Second, "how long TestSoak crawls")

// sample is what a running crawl uses at one moment.
type sample struct {
	memory     float64 // bytes, resident; where the system tells them apart, without what is mapped from files
	goroutines float64
}

// What a crawl uses does not grow with what it has done. The web is larger than can be crawled meanwhile, and the
// crawl's memory is bounded by its settings, so that after a while it is what it will be.
func TestSoak(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 50, Pages: 1_000_000, PageSize: 2048, Links: 10, CrossHost: 0.1})
	dir := filepath.Join(t.TempDir(), "data")
	p := e2e.Invocation{Args: []string{"crawl", "--start-url", web.StartURLs()[0], "--scope", "any", "--profile",
		"own-site", "--resolve", web.Resolve(), "--data-dir", dir,
		"--metrics-addr", "127.0.0.1:0", "--global-frontier-size-limit", "20000", "--workers",
		"64", "--save-interval", "10s"},
		Limit: *soak + e2e.Patience}.Start(t)
	address := regexp.MustCompile(`address=(http://\S+)`)
	p.Until("it serves metrics", func() bool { return address.MatchString(p.Err.String()) })
	metrics := address.FindStringSubmatch(p.Err.String())[1] + "/metrics"
	p.Until("all workers are at work", func() bool { return e2e.Pages(web) >= 2000 })

	all := watch(t, p, metrics)
	p.Signal(os.Interrupt)
	if got := p.Wait(); got.Code != 130 {
		t.Errorf("exit status %d, want 130", got.Code)
	}
	rep := e2e.ReadReport(t, dir)
	if rep.Outcomes["ok"] == 0 || e2e.Repeats(web) > 0 {
		t.Errorf("outcomes %v, %d pages fetched again", rep.Outcomes, e2e.Repeats(web))
	}

	early, late := worst(all[soakLooks/4:soakLooks/2]), worst(all[soakLooks*3/4:])
	t.Logf("%d pages; most memory %.0f MiB, later %.0f MiB; most goroutines %.0f, later %.0f",
		rep.Outcomes["ok"], early.memory/(1<<20), late.memory/(1<<20), early.goroutines, late.goroutines)
	if late.memory > early.memory*1.3+128<<20 {
		t.Errorf("memory grew from %.0f to %.0f MiB", early.memory/(1<<20), late.memory/(1<<20))
	}
	if late.goroutines > early.goroutines*1.5+50 {
		t.Errorf("goroutines grew from %.0f to %.0f", early.goroutines, late.goroutines)
	}
}

// soakLooks is how often TestSoak looks at the crawl.
const soakLooks = 40

// watch looks at a crawl, in even steps where the machine is fast enough.
func watch(t *testing.T, p *e2e.Process, metrics string) (all []sample) {
	t.Helper()
	look := time.NewTicker(*soak / soakLooks)
	defer look.Stop()
	for range soakLooks {
		<-look.C
		s, err := measure(metrics)
		if err != nil {
			t.Fatal(err)
		}
		if own, ok := anonymous(p.Pid()); ok {
			s.memory = own
		}
		all = append(all, s)
	}
	return all
}

func worst(all []sample) (w sample) {
	for _, s := range all {
		w.memory, w.goroutines = max(w.memory, s.memory), max(w.goroutines, s.goroutines)
	}
	return w
}

// measure reads the metrics of a running crawl.
func measure(url string) (s sample, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	values := map[string]*float64{"process_resident_memory_bytes": &s.memory, "go_goroutines": &s.goroutines}
	scan := bufio.NewScanner(resp.Body)
	for scan.Scan() {
		name, value, _ := strings.Cut(scan.Text(), " ")
		if into := values[name]; into != nil {
			if *into, err = strconv.ParseFloat(value, 64); err != nil {
				return s, err
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
	return s, scan.Err()
}

// anonymous is how much memory a process has that is not a file's.
func anonymous(pid int) (bytes float64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	var kilo float64
	n, err := fmt.Sscan(rest, &kilo)
	return kilo * 1024, n == 1 && err == nil
}
