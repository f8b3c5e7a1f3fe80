package state

import (
	"sync"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/keyset"
	"github.com/mapwright/mapwright/state/internal/record"
)

const overlayShards = 16 // a power of two

// The overlay holds what was committed and is not yet in Badger, as far as
// readers ask for it without waiting. A reader asks the overlay first and
// Badger then, and entries leave the overlay after they are in Badger; so
// nothing falls between. It is bounded by what bounds the queue.
type overlay struct {
	shards [overlayShards]overlayShard

	mu      sync.Mutex
	hosts   map[frontier.HostID]pendingHost // guarded by mu
	origins map[string]pendingOrigin        // guarded by mu
}

type overlayShard struct {
	mu    sync.Mutex
	links keyset.Counts // guarded by mu; how many records on their way name a link
	_     [24]byte      // shards are used by different CPUs at once
}

type pendingHost struct {
	fact frontier.HostFact
	at   frontier.Position
}

type pendingOrigin struct {
	fact frontier.OriginFact
	at   frontier.Position
}

func newOverlay() *overlay {
	return &overlay{hosts: map[frontier.HostID]pendingHost{}, origins: map[string]pendingOrigin{}}
}

func (o *overlay) shard(k frontier.Key) *overlayShard { return &o.shards[k.Lo%overlayShards] }

func (o *overlay) addLinks(links []frontier.Link) {
	for i := range links {
		s := o.shard(links[i].Key)
		s.mu.Lock()
		s.links.Add(links[i].Key)
		s.mu.Unlock()
	}
}

func (o *overlay) removeLinks(keys []frontier.Key) {
	for _, k := range keys {
		s := o.shard(k)
		s.mu.Lock()
		s.links.Remove(k)
		s.mu.Unlock()
	}
}

func (o *overlay) hasLink(k frontier.Key) bool {
	s := o.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links.Has(k)
}

// addFacts must be called in the order of the positions.
func (o *overlay) addFacts(at frontier.Position, r *frontier.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range r.Hosts {
		o.hosts[f.Host] = pendingHost{f, at}
	}
	for _, f := range r.Origins {
		f.Fetched, f.Expires = record.FromMillis(record.Millis(f.Fetched)), record.FromMillis(record.Millis(f.Expires))
		f.Body = record.Cloned(f.Body)
		o.origins[f.Origin] = pendingOrigin{f, at}
	}
}

// removeFacts forgets the facts of records up to a position.
func (o *overlay) removeFacts(at frontier.Position) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for h, p := range o.hosts {
		if p.at <= at {
			delete(o.hosts, h)
		}
	}
	for origin, p := range o.origins {
		if p.at <= at {
			delete(o.origins, origin)
		}
	}
}

func (o *overlay) host(h frontier.HostID) (frontier.HostFact, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, ok := o.hosts[h]
	return p.fact, ok
}

func (o *overlay) origin(origin string) (frontier.OriginFact, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, ok := o.origins[origin]
	p.fact.Body = record.Cloned(p.fact.Body)
	return p.fact, ok
}
