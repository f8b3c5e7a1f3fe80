package frontier

import (
	"slices"
	"sync/atomic"
	"time"
)

// robotsPatience is how long an origin waits for another host that its robots.txt
// redirects to: that host may rest for an hour.
const robotsPatience = 30 * time.Second

// A RobotsTask is what a robots lease is for.
type RobotsTask struct {
	// Origins are those whose robots.txt is at the lease's URL: the URL's own, or
	// those that were redirected there and wait for the answer.
	Origins []string
	// Hops is the number of redirects that led to the URL.
	Hops int
	// Late means that the origin was redirected to another host, and that this host
	// did not answer in time or gets no more requests. Nothing is to be requested.
	Late bool
}

// Robots says what a robots lease is for.
func (l *Lease) Robots() RobotsTask {
	if l.ask == nil {
		return RobotsTask{Origins: []string{l.url.Origin()}, Late: l.late}
	}
	t := RobotsTask{Hops: int(l.ask.hops)}
	for _, w := range l.ask.waits {
		t.Origins = append(t.Origins, w.origin)
	}
	return t
}

// A robotsWait is an origin that waits for the answer to a question.
type robotsWait struct {
	host   HostID
	at     origin
	origin string      // its text
	until  int64       // clock; when it ends without an answer; guarded by the mutex of the host's shard
	over   atomic.Bool // written under that mutex
}

// A question is a URL where the robots.txt of the waiting origins is said to be.
type question struct {
	url      URL
	hops     uint8 // redirects that led to it
	attempts uint8 // requests for it before
	waits    []*robotsWait
}

func (w *robotsWait) isOver() bool { return w.over.Load() }

// isOver reports whether no origin waits for the answer any more.
func (q question) isOver() bool {
	return !slices.ContainsFunc(q.waits, func(w *robotsWait) bool { return !w.isOver() })
}

// asks are the questions of a shard's hosts, and the waits of their origins. The
// two ends of a question may be in different shards. So a shard puts what another
// must know into news, and unlock delivers it when no shard is locked.
type asks struct {
	questions map[int32][]question  // by host that is to be asked
	away      map[int32]*robotsWait // by host of the origin that waits; one at a time
	news      []robotsNews
}

// robotsNews is a question to be queued, or the end of a wait.
type robotsNews struct {
	question question
	wait     *robotsWait // nil for a question
	late     bool        // the wait ends without an answer
}

// askOn ends a robots lease whose origins need a further request: where a redirect
// leads, or else for the same URL. For an origin's first request this begins the
// wait.
func (s *shard) askOn(l *Lease, redirect URL) {
	h := s.hosts.at(l.host)
	q := question{url: l.url, attempts: l.attempts + 1}
	if l.ask != nil {
		q.hops = l.ask.hops
	}
	if redirect != (URL{}) {
		q.url, q.hops, q.attempts = redirect, q.hops+1, 0
	}
	if l.ask != nil {
		q.waits = slices.Clone(l.ask.waits)
	} else {
		w := &robotsWait{host: h.id, at: l.origin, origin: l.url.Origin(), until: never}
		q.waits = []*robotsWait{w}
		s.asks.away[l.host] = w
		h.flags |= hostRobotsAway
	}
	s.asks.news = append(s.asks.news, robotsNews{question: q})
	s.endRobots(l, h)
	s.strike(l, h)
}

// leaseQuestion makes l a lease of a host's first question. It reports false if
// no origin waits for the answer any more, or if too many robots leases are out.
func (s *shard) leaseQuestion(l *Lease, h *host) bool {
	list := s.asks.questions[l.host]
	list[0].waits = slices.DeleteFunc(list[0].waits, (*robotsWait).isOver)
	q := list[0]
	if len(q.waits) > 0 && !s.takeRobots(l.host, h) {
		return false
	}
	if len(list) == 1 {
		s.dropQuestions(l.host, h)
	} else {
		s.asks.questions[l.host] = slices.Delete(list, 0, 1)
	}
	l.kind, l.url, l.ask = KindRobots, q.url, &q
	l.origin, _ = originOf(q.url)
	l.attempts = q.attempts
	return len(q.waits) > 0
}

// leaseLate makes l the lease that ends a wait without an answer.
func (s *shard) leaseLate(l *Lease, h *host) bool {
	if !s.leaseRobots(l, h, s.asks.away[l.host].at, true) {
		return false
	}
	l.late = true
	s.endWait(l.host, h)
	return true
}

func (s *shard) endWait(i int32, h *host) {
	s.asks.away[i].over.Store(true)
	delete(s.asks.away, i)
	h.flags &^= hostRobotsAway
}

// returnQuestion puts a question back.
func (s *shard) returnQuestion(l *Lease, h *host, attempts int) {
	q := *l.ask
	q.attempts = uint8(min(attempts, 255))
	s.queueQuestion(l.host, h, q)
}

func (s *shard) queueQuestion(i int32, h *host, q question) {
	h.flags |= hostRobotsAsked
	s.touch(i)
	list := slices.DeleteFunc(s.asks.questions[i], question.isOver)
	for j := range list {
		if o := &list[j]; o.url == q.url && o.hops == q.hops && o.attempts == q.attempts {
			o.waits = append(o.waits, q.waits...) // one request answers both
			return
		}
	}
	s.asks.questions[i] = append(list, q)
}

func (s *shard) dropQuestions(i int32, h *host) {
	delete(s.asks.questions, i)
	h.flags &^= hostRobotsAsked
}

// refuseQuestions ends the waits for a host that gets no more requests. An origin
// of the host itself asks anew if the host is tried again.
func (s *shard) refuseQuestions(i int32, h *host) {
	for _, q := range s.asks.questions[i] {
		s.refuseQuestion(h, &q)
	}
	s.dropQuestions(i, h)
}

func (s *shard) refuseQuestion(h *host, q *question) {
	for _, w := range q.waits {
		s.asks.news = append(s.asks.news, robotsNews{wait: w, late: w.host != h.id})
	}
}

// deliver acts on what robots leases mean for hosts of any shard. None is locked.
func (f *Frontier) deliver(news []robotsNews) {
	for _, n := range news {
		if n.wait == nil {
			f.queueQuestion(n.question)
			continue
		}
		f.withWait(n.wait, func(s *shard, i int32, h *host) {
			if n.late {
				n.wait.until = s.time()
			} else {
				s.endWait(i, h)
			}
		})
	}
}

// withWait calls fn for the host of a wait that is not over, and reports whether
// it did.
func (f *Frontier) withWait(w *robotsWait, fn func(s *shard, i int32, h *host)) bool {
	s := f.shardOf(w.host)
	s.lock()
	defer s.unlock()
	i, ok := s.table[w.host]
	if !ok || s.asks.away[i] != w {
		return false
	}
	fn(s, i, s.hosts.at(i))
	s.touch(i)
	return true
}

// queueQuestion queues a question at the host of its URL. The patience of an
// origin counts from when another host is asked first; it waits for its own host
// as long as it takes.
func (f *Frontier) queueQuestion(q question) {
	id := f.hasher.HostID(q.url.Host())
	q.waits = slices.DeleteFunc(q.waits, func(w *robotsWait) bool {
		return !f.withWait(w, func(s *shard, _ int32, _ *host) {
			switch {
			case w.host == id:
				w.until = never
			case w.until == never:
				w.until = s.time() + int64(robotsPatience)
			}
		})
	})
	if len(q.waits) == 0 {
		return
	}
	_, name := originOf(q.url)
	s := f.shardOf(id)
	s.lock()
	if f.parts[id.Partition()].takesLinks() {
		i, h := s.hostOf(id, name)
		s.queueQuestion(i, h, q)
	} else {
		s.refuseQuestion(&host{id: id}, &q)
	}
	s.unlock()
}
