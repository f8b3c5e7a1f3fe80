package recrawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// A Store knows what earlier visits recorded.
type Store interface {
	Before(ctx context.Context, k weburl.Key, visit uint32) (state.Page, bool, error)
}

// Visits holds what the visits of a run share. Its methods may be called from any goroutine.
type Visits struct {
	generation uint32
	store      Store
	reader     string
	isOutdated func(*frontier.Link, *page.Facts) bool

	// trust is held for reading while an answer 304 is recorded, so that none of a host is recorded after the host is
	// distrusted.
	trust      sync.RWMutex
	distrusted map[string]bool // guarded by trust; hosts
	// guarded by trust; generations whose facts were read as this run reads pages, by partition
	readers [256]map[uint32]bool

	mu       sync.Mutex
	readings map[weburl.Key]Reading // guarded by mu; pages that must be asked for once more, and how
	// guarded by mu; how many answers 304 of a host were verified in this run, up to verifyFirst
	verified map[weburl.HostID]uint8
	waiting  atomic.Int64 // len(readings); written under mu
}

// NewVisits makes what a run in a generation needs. Facts are those of the crawl. Reader is the result of function
// Reader for this run. IsOutdated reports whether a page with such facts has links that the run must read again.
func NewVisits(s Store, facts map[string][]byte, reader string,
	isOutdated func(*frontier.Link, *page.Facts) bool) *Visits {
	v := &Visits{
		generation: generationOf(facts), store: s, reader: reader, isOutdated: isOutdated,
		distrusted: distrustedHosts(facts),
		readings:   map[weburl.Key]Reading{}, verified: map[weburl.HostID]uint8{},
	}
	like := readersLike(facts, reader, "")
	for p := range v.readers {
		v.readers[p] = like
	}
	return v
}

// Open learns what is recorded of a partition, before its pages are visited. In a crawl of several machines that is
// known when the partition is opened. Facts are those of the crawl then.
func (v *Visits) Open(p uint8, facts map[string][]byte) {
	v.trust.Lock()
	defer v.trust.Unlock()
	for host := range distrustedHosts(facts) {
		v.distrusted[host] = true
	}
	v.readers[p] = readersLike(facts, v.reader, inPartition(p))
}

// readsLike reports whether facts of a partition's pages were read in a generation as this run reads pages.
func (v *Visits) readsLike(p uint8, generation uint32) bool {
	v.trust.RLock()
	defer v.trust.RUnlock()
	return v.readers[p][generation]
}

// Generation returns the generation of the run.
func (v *Visits) Generation() uint32 { return v.generation }

// A Visit is one visit of a page.
type Visit struct {
	// Header are the headers that the request is to have; nil for none.
	Header http.Header

	generation  uint32
	known       *Known      // nil at the first visit, and if no visit before made a request
	change      page.Change // what an earlier visit of the same generation found
	conditional bool
	noCache     bool
	verifies    bool
}

// First returns the visit of a new page that is recorded without a request.
func (v *Visits) First() *Visit { return &Visit{generation: v.generation} }

// errNotFinished means that a lease is for a later visit of a page that has no finished one.
var errNotFinished = errors.New("a page is visited again that was never finished")

// Begin prepares the visit of a page that was leased.
func (v *Visits) Begin(ctx context.Context, l *frontier.Link) (Visit, error) {
	visit := Visit{generation: v.generation}
	how := v.Reading(l.Key)
	if how == ReadAround {
		visit.Header, visit.noCache = http.Header{"Cache-Control": {"no-cache"}}, true
	}
	if l.Visit < 2 {
		return visit, nil
	}
	p, ok, err := v.store.Before(ctx, l.Key, l.Visit)
	if err == nil && (!ok || p.Finish == nil) {
		err = errNotFinished
	}
	if err != nil {
		return visit, fmt.Errorf("read what is known of %s: %w", l.URL, err)
	}
	switch page.Outcome(p.Finish.Outcome) {
	case page.Excluded:
		return visit, nil
	case page.Crashed:
		if v.generation == 0 {
			return visit, nil
		}
	}
	if visit.known, err = KnownFrom(p.Finish); err != nil {
		return visit, fmt.Errorf("read what is known of %s: %w", l.URL, err)
	}
	visit.known.OtherReader = !v.readsLike(l.Key.Host.Partition(), p.FactsGeneration)
	again := p.Finish.Generation == v.generation
	if again {
		visit.change = page.Change(p.Finish.Change)
	}
	visit.verifies = how == ReadPage || again && p.Finish.NotModified
	switch {
	case v.generation == 0, how != ReadNothing, visit.verifies, readsAll(v.generation):
		return visit, nil
	case visit.known.OtherReader, !v.trusts(l.URL.Host()), v.isOutdated(l, visit.known.Facts):
		return visit, nil
	}
	if h := Conditions(visit.known); h != nil {
		visit.Header, visit.conditional = h, true
	}
	return visit, nil
}

// IsConditional reports whether the server may answer 304.
func (v *Visit) IsConditional() bool { return v.conditional }

// LeftOut is what the visit before recorded of links that were not followed.
func (v *Visit) LeftOut() []uint64 {
	if v.known == nil {
		return nil
	}
	return v.known.Facts.LeftOut
}

// Archived says where the body of the page was archived; empty if it was not.
func (v *Visit) Archived() string {
	if v.known == nil {
		return ""
	}
	return v.known.Facts.Archived
}

// HasAnswered reports whether an earlier visit got an answer.
func (v *Visit) HasAnswered() bool { return v.known != nil && v.known.Status != 0 }

// IsLater reports whether the page was requested in an earlier visit.
func (v *Visit) IsLater() bool { return v.known != nil }

// HasNewText reports whether the text is another than the visit before found, or whether that is not known.
func (v *Visit) HasNewText(f *page.Facts) bool {
	if v.known == nil || v.known.OtherReader {
		return true
	}
	before := v.known.Facts.TextHash
	return before == nil || f.TextHash == nil || *before != *f.TextHash
}

// Confirms reports whether a visit that verifies a sampled 304 found the same body as before. The links of the page are
// then known, as after the 304 itself. A page that is verified because it is among the first of its host names its
// links again. On a small host this shows which URLs nothing names any more.
func (v *Visit) Confirms(k weburl.Key, f *page.Facts) bool {
	if v.known == nil || !v.verifies || !isSampled(k, v.generation) {
		return false
	}
	before := v.known.Facts.ContentHash
	return before != nil && f.ContentHash != nil && *before == *f.ContentHash
}

// Judge says what to record of an answer. In the first crawl it is the answer itself.
func (v *Visit) Judge(a *Answer) Verdict {
	a.Facts.Bound() // so that they are compared in the form in which they are recorded
	a.Conditional, a.NoCache, a.Verifies = v.conditional, v.noCache, v.verifies
	switch {
	case v.generation > 0:
		verdict := Judge(v.known, a)
		if v.change == page.New || verdict.Change == page.Unchanged && v.change != page.NoChange {
			verdict.Change = v.change // the change since the generation before
		}
		return verdict
	case v.known != nil:
		verdict := Judge(v.known, a)
		verdict.Change, verdict.ChangedAt, verdict.Changes, verdict.Differences = page.NoChange, time.Time{}, 0, nil
		return verdict
	case a.Status == http.StatusNotModified && !v.noCache:
		return Verdict{ReadAgain: ReadAround}
	}
	return a.verdict()
}

// Keep is the verdict of a visit that is not made, for the given reason: what is known of the page stays, as of its
// last check. It is nil if nothing is known.
func (v *Visit) Keep(why string) (kept *Verdict, checked time.Time) {
	if v.known == nil {
		return nil, checked
	}
	return v.known.Keep(why), v.known.CheckedAt
}

// ReadAgain notes that a page must be asked for once more. Its lease is to be returned; the next ones ask in the given
// way, until the page is finished: a lease may come back without a request.
func (v *Visits) ReadAgain(k weburl.Key, how Reading) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.readings[k] = how
	v.waiting.Store(int64(len(v.readings)))
}

// Reading returns how a page must be requested.
func (v *Visits) Reading(k weburl.Key) Reading {
	if v.waiting.Load() == 0 {
		return ReadNothing
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.readings[k]
}

// Finished forgets how a page must be requested.
func (v *Visits) Finished(k weburl.Key) {
	if v.waiting.Load() == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.readings, k)
	v.waiting.Store(int64(len(v.readings)))
}
