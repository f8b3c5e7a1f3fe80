package testweb

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
)

// Down makes a whole host fail in some generations, robots.txt and sitemaps included.
type Down struct {
	Generations []int `yaml:"generations"` // Empty means generation 1
	Status      int   `yaml:"status"`      // that is answered, 500 to 599. Zero means 500
	// Refuse ends every connection with an RST instead, before anything is answered. Server.Dial refuses to connect, if
	// the address that it is given has the host's name.
	Refuse bool `yaml:"refuse"`
}

func (Down) Kind() string { return "down" }

func (f Down) validate(Config) error {
	if f.Status != 0 && (f.Status < 500 || f.Status > 599) {
		return fmt.Errorf("status %d: want 500 to 599", f.Status)
	}
	if slices.ContainsFunc(f.Generations, func(n int) bool { return n < 0 || n > maxGeneration }) {
		return fmt.Errorf("generations %v: want 0 to %d", f.Generations, maxGeneration)
	}
	return nil
}

func (f Down) install(p *plan, _ *web) {
	if len(f.Generations) == 0 {
		f.Generations = []int{1}
	}
	f.Status = cmp.Or(f.Status, http.StatusInternalServerError)
	p.downs = append(p.downs, f)
}

// down returns what makes the host fail in a generation, or nil.
func (p *plan) down(gen int) *Down {
	for i := range p.downs {
		if slices.Contains(p.downs[i].Generations, gen) {
			return &p.downs[i]
		}
	}
	return nil
}

func (f *Down) answer(x *exchange) {
	if f.Refuse {
		x.finish(0)
		x.c.reset()
		return
	}
	x.text(f.Status, "the host is down\n")
}

func (f *Down) verdict() verdict {
	if f.Refuse {
		return verdict{outcomes: []string{OutcomeConnectError, OutcomeReadError, OutcomeHostBlocked}}
	}
	return verdict{outcomes: []string{OutcomeHTTPError, OutcomeHostBlocked}, status: f.Status}
}
