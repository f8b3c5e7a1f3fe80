package testweb

import (
	"fmt"
	"slices"
	"time"
)

// maxGeneration is the last generation that a web has.
const maxGeneration = 250

// generation is the web's time. It is immutable; the server holds the present one.
type generation struct {
	n     int
	began []time.Time // when each generation up to n began, UTC, in full seconds; of generation 0 it means nothing
}

// beganByDefault is when a generation began unless the configuration says otherwise: a day after the one before, all of
// them in 1999. That is before the clock of a synctest bubble starts, so such a date is never in the future and never
// close to the Date of an answer.
func beganByDefault(n int) time.Time {
	return time.Date(1999, 1, 1+n, 0, 0, 0, 0, time.UTC)
}

// modified is when a page says that its content last changed: some second of 1998, or when the generation of the change
// began.
func (g *generation) modified(hash uint64, content int) time.Time {
	if content > 0 {
		return g.began[content]
	}
	const second1998 = 883612800
	return time.Unix(second1998+int64(reduce(hash, 365*86400)), 0).UTC()
}

// to returns the generation n; those that began already keep their dates. A zero time means the default.
func (g *generation) to(n int, began time.Time) (*generation, error) {
	if n < 0 || n > maxGeneration {
		return nil, fmt.Errorf("generation %d: want 0 to %d", n, maxGeneration)
	}
	next := &generation{n: n, began: slices.Clone(g.began)}
	for i := len(next.began); i <= n; i++ {
		next.began = append(next.began, beganByDefault(i))
	}
	if !began.IsZero() {
		next.began[n] = began.UTC().Truncate(time.Second)
	}
	return next, nil
}

// SetGeneration moves the web to a generation, 0 to 250, which may be an earlier one: pages are then as Config.Changes
// has them in that generation. Requests that have begun are answered as before. The statistics stay, but a page that
// was answered 200 before is no duplicate when it is answered again.
//
// The dates of Last-Modified headers and sitemaps say that each generation began in 1999; see SetGenerationAt.
func (s *Server) SetGeneration(n int) error { return s.SetGenerationAt(n, time.Time{}) }

// SetGenerationAt is SetGeneration with a date: pages that change in this generation say that they changed then.
func (s *Server) SetGenerationAt(n int, began time.Time) error {
	s.genMu.Lock()
	defer s.genMu.Unlock()
	next, err := s.generation.Load().to(n, began)
	if err != nil {
		return err
	}
	s.generation.Store(next)
	for i := range s.hosts {
		s.hosts[i].forget()
	}
	return nil
}

// Generation returns the web's present generation.
func (s *Server) Generation() int { return s.generation.Load().n }
