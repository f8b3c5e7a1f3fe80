package testweb

import (
	"cmp"
	"errors"
	"time"
)

// Slow delays every answer of the host, robots.txt and sitemaps included.
type Slow struct {
	Delay  time.Duration `yaml:"delay"`  // Zero means 1 s
	Jitter time.Duration `yaml:"jitter"` // up to so much more, decided by the URL
}

// Capacity makes latency grow with load, as a server with so many workers does: each
// answer takes one worker for the service time, and waits in line while all are busy.
type Capacity struct {
	Workers int           `yaml:"workers"` // Zero means 8
	Service time.Duration `yaml:"service"` // Zero means 10 ms
	// Queue is how many may wait; more are answered 503. Zero means no bound.
	Queue int `yaml:"queue"`
}

func (Slow) Kind() string     { return "slow" }
func (Capacity) Kind() string { return "capacity" }

func (f Slow) validate(Config) error {
	if f.Delay < 0 || f.Jitter < 0 {
		return errors.New("want no negative delay or jitter")
	}
	return nil
}

func (f Slow) install(p *plan, _ *web) {
	f.Delay = cmp.Or(f.Delay, time.Second)
	p.gates = append(p.gates, func() gate { return slowGate{f} })
}

type slowGate struct{ f Slow }

func (g slowGate) pass(x *exchange) (time.Duration, func(*exchange)) {
	hash := nodeHash(x.s.web.cfg.Seed, x.h.id, x.node)
	return g.f.Delay + time.Duration(reduce(hash, int(g.f.Jitter)+1)), nil
}

func (f Capacity) validate(Config) error {
	if f.Workers < 0 || f.Service < 0 || f.Queue < 0 {
		return errors.New("want no negative workers, service or queue")
	}
	return nil
}

func (f Capacity) install(p *plan, _ *web) {
	f.Workers = cmp.Or(f.Workers, 8)
	f.Service = cmp.Or(f.Service, 10*time.Millisecond)
	p.gates = append(p.gates, func() gate {
		return &capacityGate{f: f, free: make([]time.Time, f.Workers)}
	})
}

type capacityGate struct {
	f    Capacity
	free []time.Time // when each worker is free
}

func (g *capacityGate) pass(x *exchange) (time.Duration, func(*exchange)) {
	first := 0
	for i, t := range g.free {
		if t.Before(g.free[first]) {
			first = i
		}
	}
	begin := g.free[first]
	if begin.Before(x.start) {
		begin = x.start
	}
	ahead := int(begin.Sub(x.start) * time.Duration(g.f.Workers) / g.f.Service)
	if g.f.Queue > 0 && ahead >= g.f.Queue+g.f.Workers {
		return 0, Answer{Status: 503}.refuse
	}
	g.free[first] = begin.Add(g.f.Service)
	return g.free[first].Sub(x.start), nil
}
