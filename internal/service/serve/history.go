package serve

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
)

// moment is what the charts show of a crawl at one time.
type moment struct {
	at                          time.Time
	found, done, rate, inFlight float64
}

func momentOf(at time.Time, l *monitor.Live) moment {
	return moment{at: at, found: float64(l.Found), done: float64(l.Done), rate: l.PagesPerSecNow,
		inFlight: float64(l.InFlight)}
}

// series are moments of one crawl over its whole run, in bounded memory: when there are too many, every second one is
// dropped and the distance between those that follow doubles.
type series struct {
	moments []moment
	every   time.Duration
}

const maxMoments = 240

func (s *series) add(m moment) {
	s.every = cmp.Or(s.every, sampleEvery)
	if n := len(s.moments); n > 0 && m.at.Sub(s.moments[n-1].at) < s.every-sampleEvery/2 {
		return
	}
	if len(s.moments) == maxMoments {
		for i := range maxMoments / 2 {
			s.moments[i] = s.moments[2*i]
		}
		s.moments = s.moments[:maxMoments/2]
		s.every *= 2
	}
	s.moments = append(s.moments, m)
}

// history keeps the figures of running crawls that a page has shown. A crawl that no page has shown costs nothing; what
// happened before is read from its metrics.jsonl.
type history struct {
	server *Server

	mu  sync.Mutex
	all map[string]*series // guarded by mu; by crawl
}

func newHistory(s *Server) *history { return &history{server: s, all: map[string]*series{}} }

// watch begins to keep the figures of a crawl.
func (h *history) watch(id string, generation uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all[id] != nil {
		return
	}
	s := &series{}
	for _, m := range readMetrics(h.server.Service.Crawls.DataDir(id), generation) {
		s.add(m)
	}
	h.all[id] = s
}

// sample takes a sample of each watched crawl. A crawl that runs no more is forgotten.
func (h *history) sample(now time.Time) {
	h.mu.Lock()
	ids := slices.Collect(maps.Keys(h.all))
	h.mu.Unlock()
	for _, id := range ids {
		live := h.server.liveOf(id)
		h.mu.Lock()
		if live == nil {
			delete(h.all, id)
		} else {
			h.all[id].add(momentOf(now, live))
		}
		h.mu.Unlock()
	}
}

// moments are the figures of a crawl so far, by time.
func (h *history) moments(id string) []moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.all[id]; s != nil {
		return append([]moment(nil), s.moments...)
	}
	return nil
}

// maxMetrics is how many bytes of metrics.jsonl are read: its end.
const maxMetrics = 8 << 20

// readMetrics reads the moments of a generation from metrics.jsonl. Lines that cannot be read are left out: the charts
// then begin later.
func readMetrics(dir datadir.Dir, generation uint32) (all []moment) {
	f, err := os.Open(dir.MetricsLog())
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxMetrics {
		if _, err := f.Seek(-maxMetrics, io.SeekEnd); err != nil {
			return nil
		}
	}
	for in := bufio.NewReaderSize(f, 64<<10); ; {
		text, err := in.ReadBytes('\n')
		var line struct {
			At     page.Time    `json:"at"`
			Status monitor.Live `json:"status"`
		}
		if json.Unmarshal(text, &line) == nil && !line.At.IsZero() && line.Status.Generation == generation {
			all = append(all, momentOf(line.At.Time, &line.Status))
		}
		if err != nil {
			return all
		}
	}
}
