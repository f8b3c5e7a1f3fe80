package recrawl

import (
	"context"
	"fmt"
	"strings"

	"github.com/mapwright/mapwright/frontier"
)

// Distrust records, by the given function, that a 304 of a host was false, together with the visit that showed it. Run
// then queues again all pages of the host that were answered 304 in this generation. Visits.Distrust comes first, so
// that no more such answers of the host are recorded.
func (s *Sweeper) Distrust(host string, record func(frontier.CrawlFact) (frontier.Disposition, error)) error {
	release := s.o.Frontier.Source() // until all are queued, the crawl is not drained
	d, err := record(frontier.CrawlFact{
		Partition: s.o.Store.Hasher().HostID(host).Partition(), Name: factDistrust + host,
		Value: append(digits(s.generation), notRechecked...),
	})
	if err != nil || d != frontier.Finished {
		release()
		return err
	}
	s.addJob(host, release)
	return nil
}

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

// addOpenJobs adds the jobs that an earlier run of this generation did not end.
func (s *Sweeper) addOpenJobs() {
	for name, value := range s.o.Store.Facts() {
		if host, ok := strings.CutPrefix(name, factDistrust); ok &&
			string(value) == string(digits(s.generation))+notRechecked {
			s.addJob(host, s.o.Frontier.Source())
		}
	}
}

// recheckAll does all jobs.
func (s *Sweeper) recheckAll(ctx context.Context) error {
	s.mu.Lock()
	jobs := s.jobs
	s.jobs = nil
	s.mu.Unlock()
	var err error
	for _, job := range jobs {
		if err == nil {
			err = s.recheck(ctx, job.host)
		}
		job.release()
	}
	return err
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
