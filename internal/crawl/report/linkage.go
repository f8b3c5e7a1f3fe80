package report

import (
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
// orphan, and one that no sitemap names is missing there. It is bounded, and says when it was not enough.
//
// It is a fold: what is new is evidence, which is recorded before or with the end of the sitemap or page that it follows from. If that record is lost in a
// kill, the sitemap or page is read again. So a checkpoint may hold what is not recorded.
type Linkage struct {
	active atomic.Bool // some sitemap lists something; written under any shard's mu
	full   atomic.Bool // more URLs than it may hold
	count  atomic.Int64
	shards [linkageShards]struct {
		mu     sync.Mutex
		listed map[uint64]bool // guarded by mu; by hash of the URL: whether a page links to it
	}
}

const (
	linkageShards = 16
	maxLinkage    = 2_000_000
)

func NewLinkage() *Linkage {
	l := &Linkage{}
	for i := range l.shards {
		l.shards[i].listed = map[uint64]bool{}
	}
	return l
}

// Count is how many URLs are known to be listed.
func (l *Linkage) Count() int64 { return l.count.Load() }

// Active reports whether some sitemap lists something.
func (l *Linkage) Active() bool { return l.active.Load() }

// Kinds of evidence. FORMAT.md of package state lists them. The subject is the hash of a URL.
const (
	evidenceSitemapLists frontier.EvidenceKind = 9
	evidencePageLinks    frontier.EvidenceKind = 10
)

// List notes that a sitemap names a URL. If that is new, it appends the evidence to e. The partition is that of the sitemap.
func (l *Linkage) List(url string, partition uint8, e []frontier.Evidence) []frontier.Evidence {
	h := xxhash.Sum64String(url)
	if !l.set(h, false) {
		return e
	}
	return append(e, frontier.Evidence{Partition: partition, Kind: evidenceSitemapLists, Subject: h})
}

// set notes that a URL is listed, and reports whether that is new.
func (l *Linkage) set(h uint64, linked bool) bool {
	s := &l.shards[h%linkageShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	had, known := s.listed[h]
	if !known && l.count.Add(1) > maxLinkage {
		l.count.Add(-1)
		l.full.Store(true)
		return false
	}
	s.listed[h] = had || linked
	l.active.Store(true)
	return !known
}

// Link notes that a page links to a URL. If the URL is listed and that is new, it appends the evidence to e. The partition is that of the page.
func (l *Linkage) Link(url string, partition uint8, e []frontier.Evidence) []frontier.Evidence {
	if !l.active.Load() {
		return e
	}
	h := xxhash.Sum64String(url)
	if !l.setLinked(h) {
		return e
	}
	return append(e, frontier.Evidence{Partition: partition, Kind: evidencePageLinks, Subject: h})
}

// setLinked notes that a page links to a URL, if the URL is listed, and reports whether that is new.
func (l *Linkage) setLinked(h uint64) bool {
	s := &l.shards[h%linkageShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	linked, listed := s.listed[h]
	if !listed || linked {
		return false
	}
	s.listed[h] = true
	return true
}

// Fold takes in evidence of an earlier run. That a page links to a URL may be on record before the sitemap that lists the URL.
func (l *Linkage) Fold(e frontier.Evidence) {
	if e.Kind == evidenceSitemapLists || e.Kind == evidencePageLinks {
		l.set(e.Subject, e.Kind == evidencePageLinks)
	}
}

// find says whether a sitemap names a URL, and whether a page links to it.
func (l *Linkage) find(url string) (listed, linked bool) {
	h := xxhash.Sum64String(url)
	s := &l.shards[h%linkageShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	linked, listed = s.listed[h]
	return listed, linked
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
		for h, linked := range s.listed {
			b = binary.BigEndian.AppendUint64(b, h)
			if linked {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
		s.mu.Unlock()
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// Load reads what save wrote.
func (l *Linkage) Load(r io.Reader) error {
	var rec [9]byte
	for {
		if _, err := io.ReadFull(r, rec[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read which URLs sitemaps list: %w", err)
		}
		l.set(binary.BigEndian.Uint64(rec[:]), rec[8] == 1)
	}
}
