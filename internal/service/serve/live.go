package serve

import (
	"bytes"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

// liveCache keeps the live part of each running crawl's page for one second, so that a hundred pages that are open cost
// one sample and one rendering.
type liveCache struct {
	server *Server

	mu  sync.Mutex
	all map[string]*livePart // guarded by mu; by crawl
}

// livePart is the live part of one crawl. Its mutex is held while it is made, so that requests at the same time wait
// for one rendering.
type livePart struct {
	mu   sync.Mutex
	at   time.Time // guarded by mu
	text []byte    // guarded by mu; not changed once it is set
}

func newLiveCache(s *Server) *liveCache { return &liveCache{server: s, all: map[string]*livePart{}} }

// get is the live part of a crawl, or nil if it does not run.
func (l *liveCache) get(crawl *service.Crawl) []byte {
	l.mu.Lock()
	part := l.all[crawl.ID]
	if part == nil {
		part = &livePart{}
		l.all[crawl.ID] = part
	}
	l.mu.Unlock()
	part.mu.Lock()
	defer part.mu.Unlock()
	if now := time.Now(); part.text == nil || now.Sub(part.at) >= sampleEvery {
		part.at, part.text = now, l.make(crawl)
	}
	return part.text
}

// sweep forgets the parts that no page has asked for lately.
func (l *liveCache) sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, part := range l.all {
		if part.mu.TryLock() { // one that is locked is in use
			if now.Sub(part.at) > keepUnused {
				delete(l.all, id)
			}
			part.mu.Unlock()
		}
	}
}

func (l *liveCache) make(crawl *service.Crawl) []byte {
	s := l.server
	live := s.liveOf(crawl.ID)
	if live == nil {
		return nil
	}
	out := &bytes.Buffer{}
	if err := s.templates.ExecuteTemplate(out, "live", liveViewOf(s.base, crawl, live,
		s.history.moments(crawl.ID))); err != nil {
		s.Log.Error("page failed", "crawl", crawl.ID, "error", err)
		return nil
	}
	return out.Bytes()
}
