// Package overlay holds what was committed to a store and is not yet in Badger.
package overlay

import (
	"sync"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/keyset"
	"github.com/mapwright/mapwright/state/internal/record"
)

const shards = 16 // a power of two

// An Overlay holds what was committed and is not yet in Badger, as far as readers ask for it without waiting. A reader
// asks the overlay first and Badger then, and entries leave the overlay after they are in Badger. So every entry is in
// one of the two. The limit of the queue (state.Options.QueueBytes) bounds its size.
type Overlay struct {
	shards [shards]shard

	mu      sync.Mutex
	hosts   map[weburl.HostID]pendingHost // guarded by mu
	origins map[string]pendingOrigin      // guarded by mu
}

type shard struct {
	mu    sync.Mutex
	links keyset.Counts // guarded by mu; how many records that are not in Badger name a link
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

// New returns an empty overlay.
func New() *Overlay {
	return &Overlay{hosts: map[weburl.HostID]pendingHost{}, origins: map[string]pendingOrigin{}}
}

func (o *Overlay) shard(k weburl.Key) *shard { return &o.shards[k.Lo%shards] }

// AddLinks adds the links of a record.
func (o *Overlay) AddLinks(links []frontier.Link) {
	for i := range links {
		s := o.shard(links[i].Key)
		s.mu.Lock()
		s.links.Add(links[i].Key)
		s.mu.Unlock()
	}
}

// RemoveLinks removes the links of records that are in Badger.
func (o *Overlay) RemoveLinks(keys []weburl.Key) {
	for _, k := range keys {
		s := o.shard(k)
		s.mu.Lock()
		s.links.Remove(k)
		s.mu.Unlock()
	}
}

// HasLink reports whether a record that is not yet in Badger names a link.
func (o *Overlay) HasLink(k weburl.Key) bool {
	s := o.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links.Has(k)
}

// AddFacts adds what a record says about hosts and origins. It must be called in the order of the positions.
func (o *Overlay) AddFacts(at frontier.Position, r *frontier.Record) {
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

// RemoveFacts removes the facts of records up to a position.
func (o *Overlay) RemoveFacts(at frontier.Position) {
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

// Host is the latest fact about a host.
func (o *Overlay) Host(h weburl.HostID) (frontier.HostFact, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, ok := o.hosts[h]
	return p.fact, ok
}

// Origin is the latest fact about an origin.
func (o *Overlay) Origin(origin string) (frontier.OriginFact, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, ok := o.origins[origin]
	p.fact.Body = record.Cloned(p.fact.Body)
	return p.fact, ok
}
