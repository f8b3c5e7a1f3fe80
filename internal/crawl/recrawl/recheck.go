package recrawl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/frontier"
)

// Distrust records, by the given function, that a 304 of a host was false, together with the visit that showed it. Run
// then queues again all pages of the host that were answered 304 in this generation. Visits.Distrust comes first, so
// that no more such answers of the host are recorded.
func (s *Sweeper) Distrust(host string, record func(frontier.CrawlFact) (frontier.Disposition, error)) error {
	release := s.o.Frontier.Source() // until all are queued, the crawl is not drained
	p := s.partitionOf(host)
	s.parts.addRecheck(p, 1) // before the visit that showed it is finished
	d, err := record(frontier.CrawlFact{
		Partition: p, Name: factDistrust + host, Value: append(digits(s.generation), notRechecked...),
	})
	if err != nil || d != frontier.Finished {
		s.parts.addRecheck(p, -1)
		release()
		return err
	}
	s.addJob(host, release)
	return nil
}

func (s *Sweeper) partitionOf(host string) uint8 { return s.o.Store.Hasher().HostID(host).Partition() }

// distrustedHosts are the hosts whose answers 304 are not believed, by the facts of the crawl.
func distrustedHosts(facts map[string][]byte) map[string]bool {
	hosts := map[string]bool{}
	for name := range facts {
		if host, ok := strings.CutPrefix(name, factDistrust); ok {
			hosts[host] = true
		}
	}
	return hosts
}

// addJob makes Run recheck a host. Release is called when that is done.
func (s *Sweeper) addJob(host string, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, recheck{host, release})
	select {
	case s.jobbed <- struct{}{}:
	default:
	}
}

// addOpenJobs adds the jobs of hosts that an earlier run or machine of this generation did not end.
func (s *Sweeper) addOpenJobs(facts map[string][]byte, isMine func(host string) bool) {
	for name, value := range facts {
		if host, ok := strings.CutPrefix(name, factDistrust); ok && isMine(host) &&
			string(value) == string(digits(s.generation))+notRechecked {
			s.parts.addRecheck(s.partitionOf(host), 1)
			s.addJob(host, s.o.Frontier.Source())
		}
	}
}

// recheckAll does all jobs.
func (s *Sweeper) recheckAll(ctx context.Context) error {
	for {
		s.mu.Lock()
		if len(s.jobs) == 0 {
			s.mu.Unlock()
			return nil
		}
		job := s.jobs[0]
		s.jobs = s.jobs[1:]
		s.mu.Unlock()
		p := s.partitionOf(job.host)
		err := s.within(ctx, p, func(ctx context.Context) error {
			err := s.recheck(ctx, job.host)
			if err == nil {
				s.parts.addRecheck(p, -1)
			}
			return err
		})
		job.release()
		if err != nil {
			return err
		}
	}
}

// dropJobs drops the jobs of a partition that is closed here: its next owner has them.
func (s *Sweeper) dropJobs(p uint8) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = slices.DeleteFunc(s.jobs, func(job recheck) bool {
		drop := s.partitionOf(job.host) == p
		if drop {
			job.release()
		}
		return drop
	})
}

// recheck queues the pages of a host that were answered 304 in this generation, except those that are queued already. A
// visit that finishes meanwhile is not a 304, because no more conditional requests are sent to the host.
func (s *Sweeper) recheck(ctx context.Context, name string) error {
	if err := s.o.Store.Flush(ctx); err != nil {
		return err
	}
	host := s.o.Store.Hasher().HostID(name)
	queued, err := QueuedVisits(ctx, s.o.Store, host)
	if err != nil {
		return err
	}
	total := 0
	links := make([]frontier.Link, 0, batch)
	for p, err := range s.o.Store.PagesOf(ctx, host, host) {
		if err != nil {
			return fmt.Errorf("look for pages of %s that were answered 304: %w", name, err)
		}
		if f := p.Finish; f == nil || f.Generation != s.generation || !f.NotModified || queued[p.Link.Key] > 0 {
			continue
		}
		if len(links) == batch {
			if err := s.o.Frontier.Revisit(ctx, links); err != nil {
				return err
			}
			links = links[:0]
		}
		links = append(links, s.next(&p))
		total++
	}
	done := frontier.CrawlFact{Partition: host.Partition(), Name: factDistrust + name, Value: digits(s.generation)}
	if err := s.o.Frontier.Revisit(ctx, links, done); err != nil {
		return err
	}
	s.o.Log.Warn("a host answered 304 for a page that had changed: its pages are asked for without conditions from "+
		"now on", "host", name, "asked_again", total)
	return nil
}
