package pace

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// simulation is a host and a client in simulated time: a discrete-event model
// with queues at both ends, deterministic for a seed.
type simulation struct {
	cfg  Config
	host simHost
	cpu  simClient
	seed uint64

	now    time.Duration
	events simEvents
	order  int
	rng    *rand.Rand

	pace      Pace
	lastStart time.Time
	inflight  int // until we are done with the answer
	wire      int // until it has arrived
	url       uint64
	wakeAt    time.Duration // when pump is due, if after now

	admitted []time.Duration // starts within the last second, where that is limited
	atHost   int             // requests in the host's hands
	hostFree []time.Duration // when each of its servers is free
	cpuFree  []time.Duration
	lag      time.Duration // smoothed wait for our own processor

	ticks []simTick
}

// simHost answers after net plus a service time, which is spread between half and
// one and a half times the mean.
type simHost struct {
	net     time.Duration
	service time.Duration
	servers int           // 0 means any number
	limit   int           // 429 above so many at once; 0 means none
	limitTo time.Duration // when that ends; 0 means never
	perSec  int           // 429 above so many a second; 0 means none
	// down is how long the host refuses everything, at the beginning of each period.
	down, period time.Duration
	// refusal is the class of every refusal, 429 if it is zero; retryAfter is what it asks for.
	refusal    Class
	retryAfter time.Duration
	// slower multiplies the service time from one moment to another.
	slower         float64
	slowAt, slowTo time.Duration
}

// simClient is our own machine: so many cores, each answer costs them so much.
type simClient struct {
	cores int
	cost  time.Duration
	// blind hides how long answers wait for the processor.
	blind  bool
	busyAt time.Duration
	busier float64
	// crowded is a machine shared with others: the cost of an answer changes every
	// 20 ms between one and that many times, and an idle process gets the processor
	// back only after a while.
	crowded float64
	// home puts the host on the same machine: its service takes our cores.
	home bool
}

// simTick is what happened in one second.
type simTick struct {
	done, refused int
	window        int // at its end
}

// simTotal adds up the seconds from one to another.
func simTotal(ticks []simTick, from, to int) (t simTick) {
	for _, k := range ticks[from:to] {
		t.done += k.done
		t.refused += k.refused
	}
	t.window = ticks[to-1].window
	return t
}

type simEvent struct {
	at    time.Duration
	order int
	do    func()
}

type simEvents []simEvent

func (e simEvents) Len() int { return len(e) }
func (e simEvents) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e simEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *simEvents) Push(x any)   { *e = append(*e, x.(simEvent)) }
func (e *simEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func simTime(d time.Duration) time.Time { return time.Unix(1_800_000_000, 0).Add(d) }

func (s *simulation) at(d time.Duration, do func()) {
	s.order++
	heap.Push(&s.events, simEvent{d, s.order, do})
}

// run simulates for d and returns what happened in each second.
func (s *simulation) run(d time.Duration) []simTick {
	s.rng = rand.New(rand.NewPCG(s.seed, 99))
	s.hostFree = make([]time.Duration, s.host.servers)
	s.cpuFree = make([]time.Duration, s.cpu.cores)
	s.ticks = make([]simTick, int(d/time.Second))
	s.pump()
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(simEvent)
		if e.at >= d {
			break
		}
		s.now = e.at
		e.do()
	}
	return s.ticks
}

func (s *simulation) tick() *simTick { return &s.ticks[int(s.now/time.Second)] }

func (s *simulation) time() time.Time { return simTime(s.now) }

// pump starts what may start, and comes back when more may.
func (s *simulation) pump() {
	for s.inflight < s.pace.Limit(&s.cfg) {
		next := s.pace.NextStart(&s.cfg, s.lastStart, s.rng.Uint64())
		if wait := next.Sub(s.time()); wait > 0 {
			if at := s.now + wait; s.wakeAt <= s.now || at < s.wakeAt {
				s.wakeAt = at
				s.at(at, s.pump)
			}
			return
		}
		s.lastStart = s.time()
		s.inflight++
		s.wire++
		s.url++
		r := simRequest{start: s.now, url: s.url, slots: s.inflight, wire: s.wire}
		s.at(s.now+s.host.net/2, func() { s.arrive(r) })
	}
}

type simRequest struct {
	start       time.Duration
	url         uint64
	slots, wire int
}

// arrive is the request reaching the host.
func (s *simulation) arrive(r simRequest) {
	back := s.host.net - s.host.net/2
	old := func(at time.Duration) bool { return at <= s.now-time.Second }
	s.admitted = slices.DeleteFunc(s.admitted, old)
	limited := s.host.limit > 0 && (s.host.limitTo == 0 || s.now < s.host.limitTo)
	down := s.host.down > 0 && s.now%s.host.period < s.host.down
	if down || limited && s.atHost >= s.host.limit || s.host.perSec > 0 && len(s.admitted) >= s.host.perSec {
		s.at(s.now+back, func() { s.receive(r, cmp.Or(s.host.refusal, ClassThrottled)) })
		return
	}
	s.atHost++
	if s.host.perSec > 0 {
		s.admitted = append(s.admitted, s.now)
	}
	took := time.Duration(float64(s.host.service) * (0.5 + s.rng.Float64()))
	if s.host.slower > 0 && s.now >= s.host.slowAt && s.now < s.host.slowTo {
		took = time.Duration(float64(took) * s.host.slower)
	}
	end := simServe(s.hostFree, s.now, took) + took
	if s.cpu.home {
		end = s.work(s.host.service) + s.host.service
	}
	s.at(end, func() {
		s.atHost--
		s.at(s.now+back, func() { s.receive(r, ClassOK) })
	})
}

// simServe puts work on the server that is free first and returns when it begins.
func simServe(free []time.Duration, now, took time.Duration) time.Duration {
	if len(free) == 0 {
		return now
	}
	first := 0
	for i := range free {
		if free[i] < free[first] {
			first = i
		}
	}
	begin := max(now, free[first])
	free[first] = begin + took
	return begin
}

// receive is the answer reaching our machine, where it waits for a core.
func (s *simulation) receive(r simRequest, class Class) {
	s.wire--
	arrived := s.now
	begin := s.work(s.cpu.cost)
	s.at(begin+s.cpu.cost, func() {
		s.lag += (begin - arrived - s.lag) / 16
		e := Event{
			Class: class, Start: simTime(r.start), Now: s.time(),
			Latency: begin - r.start, URL: r.url, Inflight: r.wire, Slots: r.slots,
		}
		if !s.cpu.blind {
			e.Lag = s.lag
		}
		s.inflight--
		if class != ClassOK {
			e.RetryAfter = s.host.retryAfter
		}
		s.pace, _ = s.pace.Apply(&s.cfg, e)
		if class == ClassOK {
			s.tick().done++
		} else {
			s.tick().refused++
		}
		s.tick().window = s.pace.Limit(&s.cfg)
		s.pump()
	})
}

// work puts work on our own cores and returns when it begins.
func (s *simulation) work(cost time.Duration) time.Duration {
	if s.cpu.busier > 0 && s.now >= s.cpu.busyAt {
		cost = time.Duration(float64(cost) * s.cpu.busier)
	}
	now := s.now
	if s.cpu.crowded > 0 {
		slice := rand.New(rand.NewPCG(s.seed, uint64(s.now/(20*time.Millisecond))))
		cost = time.Duration(float64(cost) * (1 + slice.Float64()*(s.cpu.crowded-1)))
		if slices.Min(s.cpuFree) <= now {
			now += time.Duration(s.rng.ExpFloat64() * float64(time.Millisecond))
		}
	}
	return simServe(s.cpuFree, now, cost)
}
