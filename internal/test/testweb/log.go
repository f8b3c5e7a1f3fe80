package testweb

import (
	"slices"
	"sync"
	"time"
)

// Request is one request as Config.Log keeps it.
type Request struct {
	Start  time.Time `json:"start"`
	URL    string    `json:"url"`
	Status int       `json:"status"` // 0 if it got no answer
	Agent  string    `json:"agent"`  // the User-Agent header
	// Conditional is whether the request had an If-None-Match or an If-Modified-Since.
	Conditional bool  `json:"conditional,omitempty"`
	Body        int64 `json:"body"` // bytes of body, as sent
}

// requestLog keeps requests in the order they were answered.
type requestLog struct {
	mu   sync.Mutex
	list []Request // guarded by mu
}

func (l *requestLog) add(x *exchange, status int) {
	r := Request{Start: x.start, URL: x.url(string(x.req.uri)), Status: status, Agent: string(x.req.agent),
		Conditional: x.req.conditional(), Body: x.body}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r)
}

func (l *requestLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

// Log returns all requests answered since the start or the last reset, by their
// start. It is empty unless Config.Log asked for it.
func (s *Server) Log() []Request {
	if s.log == nil {
		return nil
	}
	s.log.mu.Lock()
	list := slices.Clone(s.log.list)
	s.log.mu.Unlock()
	slices.SortStableFunc(list, func(a, b Request) int { return a.Start.Compare(b.Start) })
	return list
}
