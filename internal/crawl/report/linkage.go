package report

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
)

// Linkage remembers which URLs sitemaps list, and which of them some page links to: a page that only a sitemap names is an
// orphan, and one that no sitemap names is missing there. It is bounded. When it is full, links to URLs that it does not hold must be recorded in the store.
//
// It is a fold: what is new is evidence, which is recorded before or with the end of the sitemap or page that it follows from. If that record is lost in a
// kill, the sitemap or page is read again. A checkpoint may hold what is not recorded. So what comes from a checkpoint is evidence once more when it is seen again, and
// the evidence alone gives the same result, if a checkpoint is damaged.
type Linkage struct {
	most    int64
	active  atomic.Bool  // some sitemap lists something; written under any shard's mu, as the next three
	full    atomic.Bool  // it holds as many URLs as it may
	count   atomic.Int64 // URLs that it holds
	changes atomic.Int64 // see Changes
	shards  [linkageShards]struct {
		mu     sync.Mutex
		listed map[uint64]linkState // guarded by mu; by hash of the URL
	}
}

// linkState is what is known of a URL that a sitemap lists, as bits.
type linkState uint8

const (
	stateLinked    linkState = 1 << iota // a page links to it
	unprovenListed                       // that it is listed is known from a checkpoint: the evidence may be lost
	unprovenLinked                       // likewise, that a page links to it
)

const (
	linkageShards = 16
	maxLinkage    = 2_000_000
)

// NewLinkage makes an empty linkage, which holds at most so many URLs; 0 means 2 million.
func NewLinkage(most int) *Linkage {
	l := &Linkage{most: int64(cmp.Or(most, maxLinkage))}
	for i := range l.shards {
		l.shards[i].listed = map[uint64]linkState{}
	}
	return l
}

// Changes is another number whenever a URL was listed that may be new. A page whose links were looked at before and recorded after must look again.
func (l *Linkage) Changes() int64 { return l.changes.Load() }

// Active reports whether some sitemap lists something.
func (l *Linkage) Active() bool { return l.active.Load() }

// Full reports whether sitemaps may list URLs that it does not hold.
func (l *Linkage) Full() bool { return l.full.Load() }

// Kinds of evidence. FORMAT.md of package state lists them. The subject is the hash of a URL.
const (
	evidenceSitemapLists frontier.EvidenceKind = 9
	evidencePageLinks    frontier.EvidenceKind = 10
	evidenceLinkageFull  frontier.EvidenceKind = 11 // its subject is 0
)

// List notes that a sitemap names a URL. If that is new, it appends the evidence to e. The partition is that of the sitemap.
func (l *Linkage) List(url string, partition uint8, e []frontier.Evidence) []frontier.Evidence {
	h := xxhash.Sum64String(url)
	s := &l.shards[h%linkageShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.listed[h]
	if known && was&unprovenListed == 0 {
		return e
	}
	held := known || l.reserve()
	l.active.Store(true)
	l.changes.Add(1) // after the other two, and under mu: who reads the new number sees all of it
	if held {
		s.listed[h] = was &^ unprovenListed
		return append(e, frontier.Evidence{Partition: partition, Kind: evidenceSitemapLists, Subject: h})
	}
	if n := len(e); n > 0 && e[n-1].Kind == evidenceLinkageFull {
		return e
	}
	return append(e, frontier.Evidence{Partition: partition, Kind: evidenceLinkageFull})
}

// reserve counts one more URL, if there is space for it.
func (l *Linkage) reserve() bool {
	n := l.count.Add(1)
	if n >= l.most {
		l.full.Store(true)
	}
	if n > l.most {
		l.count.Add(-1)
		return false
	}
	return true
}

// Link notes that a page links to a URL. If the URL is listed and that is new, it appends the evidence to e. The partition is that of the page.
func (l *Linkage) Link(url string, partition uint8, e []frontier.Evidence) []frontier.Evidence {
	if !l.active.Load() {
		return e
	}
	h := xxhash.Sum64String(url)
	s := &l.shards[h%linkageShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	was, listed := s.listed[h]
	if !listed || was&(stateLinked|unprovenLinked) == stateLinked {
		return e
	}
	s.listed[h] = was&^unprovenLinked | stateLinked
	return append(e, frontier.Evidence{Partition: partition, Kind: evidencePageLinks, Subject: h})
}

// Fold takes in evidence of an earlier run. That a page links to a URL may be on record before the sitemap that lists the URL.
func (l *Linkage) Fold(e frontier.Evidence) {
	switch e.Kind {
	case evidenceSitemapLists:
		l.set(e.Subject, 0, unprovenListed)
	case evidencePageLinks:
		l.set(e.Subject, stateLinked, unprovenListed|unprovenLinked)
	case evidenceLinkageFull:
		l.full.Store(true)
		l.active.Store(true)
	}
}

// set notes that a URL is listed, and changes its state, if there is space for it.
func (l *Linkage) set(h uint64, add, remove linkState) {
	s := &l.shards[h%linkageShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.listed[h]
	if known || l.reserve() {
		s.listed[h] = was&^remove | add
		l.active.Store(true)
	}
}

// find says whether a sitemap names a URL, and whether a page links to it.
func (l *Linkage) find(url string) (listed, linked bool) {
	h := xxhash.Sum64String(url)
	s := &l.shards[h%linkageShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	state, listed := s.listed[h]
	return listed, state&stateLinked != 0
}

// LinkageVersion is the version of the stored form: a hash and a byte for each URL.
const (
	LinkageName    = "linkage"
	LinkageVersion = 1
)

// Save writes what a resumed run needs.
func (l *Linkage) Save(w io.Writer) error {
	var b []byte
	for i := range l.shards {
		s := &l.shards[i]
		b = b[:0]
		s.mu.Lock()
		for h, state := range s.listed {
			b = append(binary.BigEndian.AppendUint64(b, h), byte(state&stateLinked))
		}
		s.mu.Unlock()
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// Load reads what Save wrote.
func (l *Linkage) Load(r io.Reader) error {
	var rec [9]byte
	for {
		if _, err := io.ReadFull(r, rec[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read which URLs sitemaps list: %w", err)
		}
		state := unprovenListed
		if rec[8] == 1 {
			state |= stateLinked | unprovenLinked
		}
		l.set(binary.BigEndian.Uint64(rec[:]), state, 0)
	}
}
