package crawl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// linkage reads what earlier versions recorded of URLs that sitemaps list, as evidence and in a checkpoint. Record
// puts it where it is recorded now.
type linkage struct {
	mu   sync.Mutex      // partitions are opened at the same time
	urls map[uint64]bool // guarded by mu; by hash: URLs that sitemaps list; true if a page links to it
	full bool            // guarded by mu
}

// Kinds of evidence. FORMAT.md of package state lists them. The subject is the hash of a URL.
const (
	evidenceSitemapLists frontier.EvidenceKind = 9
	evidencePageLinks    frontier.EvidenceKind = 10
	evidenceLinkageFull  frontier.EvidenceKind = 11 // its subject is 0
)

// linkageName is the name of the snapshot.
const linkageName = "linkage"

// isFull reports whether sitemaps list URLs that linkage does not hold.
func (l *linkage) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full
}

// fold takes in evidence, in any order.
func (l *linkage) fold(e frontier.Evidence) {
	if e.Kind < evidenceSitemapLists || e.Kind > evidenceLinkageFull {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Kind {
	case evidenceSitemapLists:
		l.addLocked(e.Subject, false)
	case evidencePageLinks:
		l.addLocked(e.Subject, true)
	case evidenceLinkageFull:
		l.full = true
	}
}

func (l *linkage) addLocked(hash uint64, linked bool) {
	if l.urls == nil {
		l.urls = map[uint64]bool{}
	}
	l.urls[hash] = l.urls[hash] || linked
}

// load reads a snapshot: a hash and a byte for each URL.
func (l *linkage) load(r io.Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rec [9]byte
	for {
		if _, err := io.ReadFull(r, rec[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read which URLs sitemaps list: %w", err)
		}
		l.addLocked(binary.BigEndian.Uint64(rec[:]), rec[8] == 1)
	}
}

// record commits which pages sitemaps list, and to which of them a page links, if the store does not have it. It also
// commits that there are such pages. It does nothing if linkage is empty. Later runs repeat it with the same result
// until the evidence is gone from the log. Nothing else names URLs meanwhile.
func (l *linkage) record(ctx context.Context, s *state.Store) (known bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.urls) == 0 && !l.full {
		return false, nil
	}
	if err := s.Flush(ctx); err != nil {
		return false, err
	}
	rec := frontier.Record{}
	commit := func() error {
		if err := s.Ready(ctx); err != nil {
			return err
		}
		_, err := s.Commit(rec)
		rec.Named = rec.Named[:0]
		return err
	}
	for p, err := range s.Pages(ctx) {
		if err != nil {
			return false, err
		}
		linked, listed := l.urls[xxhash.Sum64String(p.Link.URL.String())]
		source := p.Link.Source
		n := frontier.Named{
			Key:    p.Link.Key,
			Listed: listed && !p.Listed.Named && source != page.SourceSitemap,
			Linked: linked && !p.Linked.Named && source != page.SourceLink && source != page.SourceRedirect,
		}
		if !n.Listed && !n.Linked {
			continue
		}
		if rec.Named = append(rec.Named, n); len(rec.Named) == 1000 {
			if err := commit(); err != nil {
				return false, err
			}
		}
	}
	rec.Facts = []frontier.CrawlFact{{Name: frontier.FactListed, Value: []byte{1}}}
	if err := commit(); err != nil {
		return false, err
	}
	return true, s.Flush(ctx)
}
