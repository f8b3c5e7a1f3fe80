package frontier

// aimd is the adaptive number of requests in flight of one host.
type aimd struct {
	size uint16 // requests allowed in flight; 0 means MinInflight, not begun
	seen uint16 // answers since the last step
}

func (a *aimd) limit(c *PaceConfig) int {
	if a.size == 0 {
		return c.MinInflight
	}
	return int(a.size)
}

// observe takes one event and returns the effect on the window.
func (a *aimd) observe(c *PaceConfig, e Event, v Verdict) Effect {
	size := a.limit(c)
	switch v {
	case VerdictRefused:
		a.seen = 0
		a.size = uint16(max(1, size/2))
		return EffectWindowCut
	case VerdictAnswered:
		if e.Inflight < size {
			return 0
		}
		if a.seen++; int(a.seen) < size || size >= c.MaxInflight {
			return 0
		}
		a.seen = 0
		a.size = uint16(size + 1)
		return EffectWindowGrew
	}
	return 0
}
