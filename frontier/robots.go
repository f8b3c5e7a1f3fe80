package frontier

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// originState is what is known of an origin's robots.txt.
type originState struct {
	origin origin
	// round is Frontier.rounds at the lease of a provisional answer. It is 0 for any other.
	round uint32
	crawl time.Duration // its Crawl-delay
	until int64         // clock; when it must be asked for again, 0 if it never was
}

// isKnown reports whether pages of the origin may be leased.
func (o originState) isKnown(now int64, round uint32) bool {
	return o.until > now && (o.round == 0 || o.round == round)
}

// AskRobotsAgain ends what robots leases found that were provisional. When a URL of such an origin is leased next,
// another robots lease comes before it.
func (f *Frontier) AskRobotsAgain() { f.rounds.Add(1) }

// origins are what is known of the robots.txt of hosts' origins. Most hosts have one
// origin: the first that was asked about is in the host, the others are here.
type origins struct {
	others map[int32]map[origin]originState
}

// get is what is known of an origin.
func (os *origins) get(i int32, h *host, o origin) originState {
	if h.first.until == 0 || h.first.origin == o {
		return h.first
	}
	return os.others[i][o]
}

// set notes what is known of an origin. It returns the longest Crawl-delay of all
// origins of the host.
func (os *origins) set(i int32, h *host, o originState) (longest time.Duration) {
	switch {
	case h.first.until == 0 || h.first.origin == o.origin:
		h.first = o
	case os.others[i] == nil:
		os.others[i] = map[origin]originState{o.origin: o}
	default:
		os.others[i][o.origin] = o
	}
	longest = h.first.crawl
	for _, other := range os.others[i] {
		longest = max(longest, other.crawl)
	}
	return longest
}

// remove forgets a host.
func (os *origins) remove(i int32) { delete(os.others, i) }

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
	// Late means that the origin was redirected to another host, and that the other host did not answer in time or gets
	// no more requests. Nothing is to be requested.
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

// A RobotsQuestion asks the owner of another partition for an origin's robots.txt, which redirects to a host of that
// partition.
type RobotsQuestion struct {
	Host   weburl.HostID // of URL
	URL    weburl.URL
	Origin string // that waits for the answer
	Hops   uint8  // redirects that led to the URL
}

// A robotsWait is an origin that waits for the answer to a question.
type robotsWait struct {
	host   weburl.HostID
	at     origin
	origin string      // its text
	until  int64       // clock; when it ends without an answer; guarded by the mutex of the host's shard
	over   atomic.Bool // written under that mutex
	// foreign means that the origin is one of another machine, and waits there.
	foreign bool
}

// A question is a URL where the robots.txt of the waiting origins is said to be.
type question struct {
	url      weburl.URL
	hops     uint8 // redirects that led to it
	attempts uint8 // requests for it before
	waits    []*robotsWait
}

func (w *robotsWait) isOver() bool { return w.over.Load() }

// isOver reports whether no origin waits for the answer any more.
func (q question) isOver() bool {
	return !slices.ContainsFunc(q.waits, func(w *robotsWait) bool { return !w.isOver() })
}

// robotsQuestions are the questions of a shard's hosts, and the waits of their origins. The host to be asked and the
// origin that waits may be in different shards. So a shard puts what the other must know into outbox, and deliver acts
// on it when no shard is locked.
//
// A host has questions exactly when it has hostRobotsAsked, and an origin that waits
// exactly when it has hostRobotsAway.
type robotsQuestions struct {
	questions map[int32][]question  // by host that is to be asked
	waiting   map[int32]*robotsWait // by host of the origin that waits; one at a time
	outbox    []robotsNotice
}

// robotsNotice is a question to be queued, or the end of a wait.
type robotsNotice struct {
	question question
	wait     *robotsWait // nil for a question
	late     bool        // the wait ends without an answer
}

func newRobotsQuestions() robotsQuestions {
	return robotsQuestions{questions: map[int32][]question{}, waiting: map[int32]*robotsWait{}}
}

// follow makes a question for the next request that the origins of a robots lease need: for the URL of a redirect, or
// for the same URL again. After an origin's first request, this begins its wait.
func (a *robotsQuestions) follow(l *Lease, h *host, redirect weburl.URL) {
	q := question{url: l.url, attempts: l.attempts + 1}
	if l.ask != nil {
		q.hops = l.ask.hops
	}
	if redirect != (weburl.URL{}) {
		q.url, q.hops, q.attempts = redirect, q.hops+1, 0
	}
	if l.ask != nil {
		q.waits = slices.Clone(l.ask.waits)
	} else {
		w := &robotsWait{host: h.id, at: l.origin, origin: l.url.Origin(), until: never}
		q.waits = []*robotsWait{w}
		a.waiting[l.host] = w
		h.flags |= hostRobotsAway
	}
	a.outbox = append(a.outbox, robotsNotice{question: q})
}

// hasOpen reports whether an origin waits for the answer to a host's first question,
// and drops the question if not.
func (a *robotsQuestions) hasOpen(i int32, h *host) bool {
	q := &a.questions[i][0]
	if q.waits = slices.DeleteFunc(q.waits, (*robotsWait).isOver); len(q.waits) > 0 {
		return true
	}
	a.pop(i, h)
	return false
}

// lease makes l a lease of its host's first question.
func (a *robotsQuestions) lease(l *Lease, h *host) {
	q := a.pop(l.host, h)
	l.kind, l.url, l.ask = KindRobots, q.url, &q
	l.origin, _ = originOf(q.url)
	l.attempts = q.attempts
}

// pop takes a host's first question out.
func (a *robotsQuestions) pop(i int32, h *host) question {
	list := a.questions[i]
	q := list[0]
	if len(list) == 1 {
		a.drop(i, h)
	} else {
		a.questions[i] = slices.Delete(list, 0, 1)
	}
	return q
}

// queue gives a host a question. One request answers all questions for the same URL.
func (a *robotsQuestions) queue(i int32, h *host, q question) {
	h.flags |= hostRobotsAsked
	list := slices.DeleteFunc(a.questions[i], question.isOver)
	for j := range list {
		if o := &list[j]; o.url == q.url && o.hops == q.hops && o.attempts == q.attempts {
			o.waits = append(o.waits, q.waits...)
			return
		}
	}
	a.questions[i] = append(list, q)
}

// giveBack queues the question of a lease again.
func (a *robotsQuestions) giveBack(l *Lease, h *host, attempts int) {
	q := *l.ask
	q.attempts = uint8(min(attempts, 255))
	a.queue(l.host, h, q)
}

// drop forgets the questions of a host.
func (a *robotsQuestions) drop(i int32, h *host) {
	delete(a.questions, i)
	h.flags &^= hostRobotsAsked
}

// refuseAll ends the waits for a host that gets no more requests. An origin of the host itself asks again if the host
// is tried again.
func (a *robotsQuestions) refuseAll(i int32, h *host) {
	for _, q := range a.questions[i] {
		a.refuse(h.id, &q)
	}
	a.drop(i, h)
}

// refuse ends the waits for the answer of a host that gets no more requests.
func (a *robotsQuestions) refuse(id weburl.HostID, q *question) {
	for _, w := range q.waits {
		a.outbox = append(a.outbox, robotsNotice{wait: w, late: w.host != id})
	}
}

// answer ends the waits for an answer that the caller has stored.
func (a *robotsQuestions) answer(q *question) {
	for _, w := range q.waits {
		a.outbox = append(a.outbox, robotsNotice{wait: w})
	}
}

// endWait ends the wait of a host's origin.
func (a *robotsQuestions) endWait(i int32, h *host) {
	a.waiting[i].over.Store(true)
	delete(a.waiting, i)
	h.flags &^= hostRobotsAway
}

// takeOutbox returns what other shards must know, and forgets it.
func (a *robotsQuestions) takeOutbox() []robotsNotice {
	outbox := a.outbox
	a.outbox = nil
	return outbox
}

// deliver takes questions and the ends of waits to the hosts that they are for, in any shard. It is called while no
// shard is locked.
func (f *Frontier) deliver(outbox []robotsNotice) {
	for _, n := range outbox {
		if n.wait == nil {
			f.queueQuestion(n.question)
			continue
		}
		f.withWait(n.wait, func(s *shard, i int32, h *host) {
			if n.late {
				n.wait.until = s.time()
			} else {
				s.robots.endWait(i, h)
			}
		})
	}
}

// withWait calls fn for the host of a wait that is not over, and reports whether
// it did.
func (f *Frontier) withWait(w *robotsWait, fn func(s *shard, i int32, h *host)) bool {
	s := f.shards.of(w.host)
	s.lock()
	defer s.unlock()
	i, ok := s.hosts.find(w.host)
	if !ok {
		return false
	}
	if waiting := s.robots.waiting[i]; waiting == nil || waiting != w && !(w.foreign && waiting.origin == w.origin) {
		return false
	}
	fn(s, i, s.hosts.at(i))
	s.touch(i)
	return true
}

// queueQuestion queues a question at the host of its URL. robotsPatience counts from the first question to another
// host. For its own host an origin waits without limit.
func (f *Frontier) queueQuestion(q question) {
	id := f.hasher.HostID(q.url.Host())
	q.waits = slices.DeleteFunc(q.waits, func(w *robotsWait) bool {
		return !w.foreign && !f.withWait(w, func(s *shard, _ int32, _ *host) {
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
	s := f.shards.of(id)
	s.lock()
	if f.parts.of(id).takesLinks() {
		i, h := s.hostOf(id, name)
		s.robots.queue(i, h, q)
		s.addresses.goFirst(i)
		s.touch(i)
		s.unlock()
		return
	}
	s.unlock()
	// The owner of the partition asks, and the answer comes through Member.Answered. The store returns an error of this
	// commit again to the next call that records.
	var rec Record
	for _, w := range q.waits {
		rec.Asked = append(rec.Asked, RobotsQuestion{Host: id, URL: q.url, Origin: w.origin, Hops: q.hops})
	}
	_, _ = f.store.Commit(rec)
}

// ask queues a question of another machine.
func (f *Frontier) ask(q RobotsQuestion) error {
	root, err := weburl.Parse(q.Origin + "/")
	if err != nil {
		return err
	}
	at, _ := originOf(root)
	f.queueQuestion(question{url: q.URL, hops: q.Hops, waits: []*robotsWait{{host: f.hasher.HostID(root.Host()), at: at,
		origin: q.Origin, foreign: true}}})
	return nil
}
