package crawl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// linkage remembers which URLs sitemaps list, and which of them some page links to: a page that only a sitemap names is an
// orphan, and one that no sitemap names is missing there. It is bounded, and says when it was not enough.
type linkage struct {
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

func newLinkage() *linkage {
	l := &linkage{}
	for i := range l.shards {
		l.shards[i].listed = map[uint64]bool{}
	}
	return l
}

// list notes that a sitemap names a URL.
func (l *linkage) list(url string) { l.set(xxhash.Sum64String(url), false) }

func (l *linkage) set(h uint64, linked bool) {
	s := &l.shards[h%linkageShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	had, known := s.listed[h]
	if !known && l.count.Add(1) > maxLinkage {
		l.count.Add(-1)
		l.full.Store(true)
		return
	}
	s.listed[h] = had || linked
	l.active.Store(true)
}

// link notes that a page links to a URL.
func (l *linkage) link(url string) {
	if !l.active.Load() {
		return
	}
	h := xxhash.Sum64String(url)
	s := &l.shards[h%linkageShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.listed[h]; known {
		s.listed[h] = true
	}
}

// find says whether a sitemap names a URL, and whether a page links to it.
func (l *linkage) find(url string) (listed, linked bool) {
	h := xxhash.Sum64String(url)
	s := &l.shards[h%linkageShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	linked, listed = s.listed[h]
	return listed, linked
}

// linkageForm is the version of the stored form: a hash and a byte for each URL.
const (
	linkageName = "linkage"
	linkageForm = 1
)

// save writes what a resumed run needs.
func (l *linkage) save(w io.Writer) error {
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

// load reads what save wrote.
func (l *linkage) load(r io.Reader) error {
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
