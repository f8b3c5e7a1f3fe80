package crawl

import "sync/atomic"

// Phase is how far a run has come.
type Phase string

// The phases, in their order. A run may skip any but the last.
const (
	Queueing Phase = "queueing" // waits for another safe crawl to end
	Crawling Phase = "crawling"
	Stopping Phase = "stopping" // no new fetches; those under way may finish
	Writing  Phase = "writing"  // the outputs
)

// phases says which phase a run is in. Only Run's own goroutines write it.
type phases struct{ now atomic.Pointer[phaseNote] }

type phaseNote struct {
	phase Phase
	note  string // what is waited for, for people
}

func (p *phases) enter(phase Phase, note string) { p.now.Store(&phaseNote{phase, note}) }

func (p *phases) get() phaseNote {
	if n := p.now.Load(); n != nil {
		return *n
	}
	return phaseNote{phase: Crawling}
}
