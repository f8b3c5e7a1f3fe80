package state

import (
	"sync"

	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/state/internal/keyset"
)

const overlayShards = 16 // a power of two

// The overlay holds what was committed and is not yet in Badger, as far as
// readers ask for it without waiting. A reader asks the overlay first and
// Badger then, and entries leave the overlay after they are in Badger; so
// nothing falls between. It is bounded by what bounds the queue.
type overlay struct {
	shards [overlayShards]overlayShard

	mu     sync.Mutex
	hosts  map[urlnorm.HostID]pendingHost // guarded by mu
	robots map[string]pendingRobots       // guarded by mu
}

type overlayShard struct {
	mu    sync.Mutex
	links keyset.Counts // guarded by mu; how many records on their way name a link
	_     [24]byte      // shards are used by different CPUs at once
}

type pendingHost struct {
	fact HostFact
	seq  uint64
}

type pendingRobots struct {
	fact RobotsFact
	seq  uint64
}

func newOverlay() *overlay {
	return &overlay{hosts: map[urlnorm.HostID]pendingHost{}, robots: map[string]pendingRobots{}}
}

func (o *overlay) shard(k urlnorm.Key) *overlayShard { return &o.shards[k.Lo%overlayShards] }

func (o *overlay) addLinks(links []Link) {
	for i := range links {
		s := o.shard(links[i].Key)
		s.mu.Lock()
		s.links.Add(links[i].Key)
		s.mu.Unlock()
	}
}

func (o *overlay) removeLinks(keys []urlnorm.Key) {
	for _, k := range keys {
		s := o.shard(k)
		s.mu.Lock()
		s.links.Remove(k)
		s.mu.Unlock()
	}
}

func (o *overlay) hasLink(k urlnorm.Key) bool {
	s := o.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links.Has(k)
}

// addFacts must be called in the order of the log.
func (o *overlay) addFacts(seq uint64, r *Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range r.Hosts {
		f.Data = cloned(f.Data)
		o.hosts[f.Host] = pendingHost{f, seq}
	}
	for _, f := range r.Robots {
		f.FetchedAt, f.Expires = fromMillis(millis(f.FetchedAt)), fromMillis(millis(f.Expires))
		f.Data = cloned(f.Data)
		o.robots[f.Origin] = pendingRobots{f, seq}
	}
}

// removeFacts forgets the facts of records up to seq.
func (o *overlay) removeFacts(seq uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for h, p := range o.hosts {
		if p.seq <= seq {
			delete(o.hosts, h)
		}
	}
	for origin, p := range o.robots {
		if p.seq <= seq {
			delete(o.robots, origin)
		}
	}
}

func (o *overlay) host(h urlnorm.HostID) (HostFact, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, ok := o.hosts[h]
	p.fact.Data = cloned(p.fact.Data)
	return p.fact, ok
}

func (o *overlay) robotsOf(origin string) (RobotsFact, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, ok := o.robots[origin]
	p.fact.Data = cloned(p.fact.Data)
	return p.fact, ok
}
