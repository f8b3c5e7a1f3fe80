package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Figures are what one crawl of a scenario took.
type Figures struct {
	Pages       int64         // by the web's statistics
	Crawl       time.Duration // the crawl phase
	Export      time.Duration
	CPU         time.Duration // of the crawler's process, crawl and export
	AnonymousMB float64       // the largest anonymous RSS
	HotSetMB    float64       // of it, the hot set: a cache whose size is a setting
	Connections int64
	Duplicates  int64
	ServerCPU   time.Duration

	// By the web's statistics, and of a recrawl:
	Conditional int64 // requests with conditions
	NotModified int64 // answers 304
	Bodies      int64
	Changed     int64 // pages that changed, by the report
	Unchanged   int64
}

// PagesPerSecond is the speed of the crawl phase.
func (f Figures) PagesPerSecond() float64 { return float64(f.Pages) / f.Crawl.Seconds() }

// CPUPerPage is the crawler's processor time for one page.
func (f Figures) CPUPerPage() time.Duration { return f.CPU / time.Duration(max(f.Pages, 1)) }

// childReport is what a crawler prints at its end.
type childReport struct {
	CrawlSeconds  float64 `json:"crawl_seconds"`
	ExportSeconds float64 `json:"export_seconds"`
	HotSetBytes   float64 `json:"hot_set_bytes"`
	Changes       struct {
		Changed   int64 `json:"changed"`
		Unchanged int64 `json:"unchanged"`
	} `json:"changes"`
}

// rssEvery is how often the memory of a crawler is looked at.
const rssEvery = 20 * time.Millisecond

// Measure runs a crawler against a web and takes its figures. The crawler prints a JSON object with crawl_seconds as
// its last output.
func Measure(w *Web, cmd *exec.Cmd) (Figures, error) {
	var f Figures
	if err := w.Reset(); err != nil {
		return f, err
	}
	before, err := w.CPU()
	if err != nil {
		return f, err
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		return f, err
	}
	peak := make(chan int64)
	stop := make(chan struct{})
	go func() { peak <- watchRSS(cmd.Process.Pid, stop) }()
	err = cmd.Wait()
	close(stop)
	f.AnonymousMB = float64(<-peak) / (1 << 20)
	if err != nil {
		return f, fmt.Errorf("%s: %w\n%s", cmd.Path, err, tail(errs.String(), 2000))
	}
	var rep childReport
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
		return f, fmt.Errorf("%s printed %q: %w", cmd.Path, tail(out.String(), 200), err)
	}
	f.Crawl = time.Duration(rep.CrawlSeconds * float64(time.Second))
	f.Export = time.Duration(rep.ExportSeconds * float64(time.Second))
	f.HotSetMB = rep.HotSetBytes / (1 << 20)
	f.Changed, f.Unchanged = rep.Changes.Changed, rep.Changes.Unchanged
	f.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	after, err := w.CPU()
	if err != nil {
		return f, err
	}
	f.ServerCPU = after - before
	stats, err := w.Stats()
	if err != nil {
		return f, err
	}
	f.Connections = stats.Connections
	for _, h := range stats.Hosts {
		f.Pages += int64(h.Pages - h.Duplicates.Count)
		f.Duplicates += int64(h.Duplicates.Count)
		f.Conditional += int64(h.Conditional)
		f.NotModified += int64(h.Status[http.StatusNotModified])
		f.Bodies += int64(h.Bodies)
	}
	return f, nil
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }

// watchRSS finds the largest anonymous RSS of a process, in bytes. Files that a process maps do not count: the kernel
// can take them back.
func watchRSS(pid int, stop <-chan struct{}) (peak int64) {
	tick := time.NewTicker(rssEvery)
	defer tick.Stop()
	for {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			<-stop
			return peak
		}
		for line := range strings.Lines(string(text)) {
			if kb, ok := strings.CutPrefix(line, "RssAnon:"); ok {
				n, _ := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
				peak = max(peak, n<<10)
			}
		}
		select {
		case <-stop:
			return peak
		case <-tick.C:
		}
	}
}
