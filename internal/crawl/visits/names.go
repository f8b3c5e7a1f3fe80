package visits

import (
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/dedup"
)

// Names remembers which URLs were named in this run, so that each is recorded once. It is bounded and may forget: then a URL is recorded again, which changes nothing.
type Names struct {
	generation uint32
	shards     [nameShards]nameShard
}

type nameShard struct {
	mu             sync.Mutex
	listed, linked *dedup.Recent // guarded by mu
}

const (
	nameShards = 16
	nameBytes  = 32 << 20 // of all shards, for listed and linked each
)

func newNames(generation uint32) *Names {
	n := &Names{generation: generation}
	for i := range n.shards {
		n.shards[i].listed, n.shards[i].linked = dedup.NewRecent(nameBytes/nameShards), dedup.NewRecent(nameBytes/nameShards)
	}
	return n
}

// List appends to list that a sitemap lists a URL, unless that is noted already.
func (n *Names) List(list []frontier.Named, k frontier.Key, lastMod time.Time) []frontier.Named {
	s := n.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed.Has(k) {
		return list
	}
	s.listed.Add(k)
	return append(list, frontier.Named{Key: k, Listed: true, LastMod: lastMod, Generation: n.generation})
}

// Link appends to list that a page links to a URL, unless that is noted already.
func (n *Names) Link(list []frontier.Named, k frontier.Key) []frontier.Named {
	s := n.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.linked.Has(k) {
		return list
	}
	s.linked.Add(k)
	return append(list, frontier.Named{Key: k, Linked: true, Generation: n.generation})
}

func (n *Names) shard(k frontier.Key) *nameShard { return &n.shards[k.Lo%nameShards] }
