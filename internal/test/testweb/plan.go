package testweb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// plan is what the faults of a host come to. Hosts with the same faults share one;
// it is immutable once made.
type plan struct {
	leaves []leaf
	index  map[string]int // leaves by URI
	twice  string         // a URI that was added again
	linked []int          // leaves that pages of the tree link to
	traps  []trap
	gates  []func() gate // each makes one host's own state
	same   *sameAnswer   // what becomes of every page, if not what is usual
	robots robotsPlan

	// outlasts says what becomes of every URL if a gate refuses it more often than
	// the crawl tries; nil, or a nil verdict, if none does.
	outlasts func(Crawl) *verdict

	moved       *int // host that all pages redirect to
	closeAlways bool // no keep-alive
	validators  validatorMode
	downs       []Down
}

// leaf is a URL that a fault adds to a host.
type leaf struct {
	uri      string // path and query, canonical
	href     string // how a page of the tree writes the link; empty if none links here
	nofollow bool   // of that link
	answer   func(*exchange)
	links    []leafLink          // what a crawl finds on it, when it may
	verdict  func(Crawl) verdict // nil means ok
	bait     bool                // a correct crawl never asks for it
	trap     bool                // the way into a trap: what is found is open
	private  bool                // disallowed by robots.txt
}

// leafLink is a link of a leaf, to a URI of the same host.
type leafLink struct {
	uri      string
	nofollow bool
}

// trap is an endless family of URLs with a common prefix.
type trap struct {
	kind   string
	prefix string
	answer func(*exchange)
}

// sameAnswer is one answer for all pages of a host.
type sameAnswer struct {
	answer  func(*exchange)
	verdict func(Crawl) verdict
}

// gate is one host's state of a fault that stands before its answers. It is
// called with the host locked, as each request begins, and says how long the
// answer takes, or what is answered instead.
type gate interface {
	pass(*exchange) (wait time.Duration, instead func(*exchange))
}

// add adds leaves in order; those with a href are linked from the tree.
func (p *plan) add(leaves ...leaf) {
	for _, l := range leaves {
		if _, ok := p.index[l.uri]; ok {
			p.twice = l.uri
			continue
		}
		p.index[l.uri] = len(p.leaves)
		if l.href != "" {
			p.linked = append(p.linked, len(p.leaves))
		}
		p.leaves = append(p.leaves, l)
	}
}

func (p *plan) find(uri []byte, leafBase int) int {
	if i, ok := p.index[string(uri)]; ok {
		return leafBase + i
	}
	for i := range p.traps {
		if bytes.HasPrefix(uri, []byte(p.traps[i].prefix)) {
			return nodeTrap
		}
	}
	if bytes.HasPrefix(uri, []byte("/static/")) {
		return nodeAsset
	}
	return nodeUnknown
}

func (p *plan) trap(uri []byte) *trap {
	for i := range p.traps {
		if bytes.HasPrefix(uri, []byte(p.traps[i].prefix)) {
			return &p.traps[i]
		}
	}
	return nil
}

// newPlans makes one plan for each set of faults that occurs, and gives every
// host its own.
func newPlans(w *web) ([]*plan, error) {
	shared := make(map[string]*plan)
	plans := make([]*plan, w.cfg.Hosts)
	var key []byte
	for h := range plans {
		key = key[:0]
		for i, f := range w.cfg.Faults {
			if f.Hosts.contains(h) {
				key = binary.AppendUvarint(key, uint64(i))
			}
		}
		p := shared[string(key)]
		if p == nil {
			p = &plan{index: make(map[string]int)}
			for i, f := range w.cfg.Faults {
				if !f.Hosts.contains(h) {
					continue
				}
				if f.Fault.install(p, w); p.twice != "" {
					return nil, fmt.Errorf("fault %d: %s: host %d has a %s already", i, f.Fault.Kind(), h, p.twice)
				}
			}
			shared[string(key)] = p
		}
		plans[h] = p
	}
	return plans, nil
}
