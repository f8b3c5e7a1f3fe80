package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/state/internal/overlay"
	"github.com/mapwright/mapwright/state/internal/record"
)

var _ frontier.Store = (*Store)(nil)

// MaxRecordSize bounds the encoded size of one record. A page within the usual
// limits needs a small part of it. Commit splits a larger record between its links.
const MaxRecordSize = record.MaxSize

// maxName bounds the names of facts and origins, which are keys in Badger.
const maxName = 60_000

// A Store is the open record of a crawl. It is a [frontier.Store].
type Store struct {
	*access
	*checkpoints
	*queries

	dir   string
	opts  Options
	seed  uint64 // of the crawl's hashes
	run   uint64 // number of this opening, from 1
	found Recovery

	lock     *disk.Lock
	isNewDir bool   // Open has made the directory
	inflight []byte // see SetInFlight; nil without workers
	journal  Journal
	view     *view
	overlay  *overlay.Overlay
	keeper   *keeper
	pipeline *pipeline
	buffers  sync.Pool // of *encodeBuffer
	parts    openPartitions

	running sync.WaitGroup // of the goroutines that start begins

	closeOnce func() error // calls closeAll once, and returns its error each time
	reclaim   func() error // guarded by checkpoints.making; closes what Close has left open; nil if nothing is left
}

type encodeBuffer struct {
	buf  []byte
	ends []int
}

// start begins the goroutines. Close joins them.
func (s *Store) start() {
	s.running.Go(s.pipeline.write)
	s.running.Go(s.pipeline.apply)
	s.running.Go(s.keeper.run)
}

// Commit puts records into the journal, in order and with no other's between
// them, and returns the position of the last; they have consecutive positions.
// It does not wait for anything, and may be called with locks held. They are
// durable when Flush returns, and about Options.BatchDelay later by themselves.
//
// A record larger than MaxRecordSize becomes several: the first ones have its links and those that it sends, the last
// one has all else. A crash may leave only the first ones, in which case the page is not finished, its links are known,
// and the caller's next try finishes it. If what is left without links is still too large, or a name in a record is
// longer than 60,000 bytes, nothing is committed and the error is ErrTooLarge. Any other error is the one that failed
// the store.
func (s *Store) Commit(recs ...frontier.Record) (frontier.Position, error) {
	e, _ := s.buffers.Get().(*encodeBuffer)
	if e == nil {
		e = &encodeBuffer{}
	}
	defer s.buffers.Put(e)
	e.buf, e.ends = e.buf[:0], e.ends[:0]
	facts := false
	for i := 0; i < len(recs); i++ {
		if err := checkNames(&recs[i]); err != nil {
			return 0, err
		}
		start := len(e.buf)
		e.buf = record.Append(e.buf, s.run, &recs[i], &s.bodies)
		if n := len(e.buf) - start; n > MaxRecordSize {
			if !s.canSplit(&recs[i]) {
				return 0, fmt.Errorf("commit %d bytes: %w", n, ErrTooLarge)
			}
			recs = split(recs, i)
			e.buf = e.buf[:start]
			i--
			continue
		}
		e.ends = append(e.ends, len(e.buf))
		facts = facts || len(recs[i].Hosts)+len(recs[i].Origins)+len(recs[i].Facts) > 0
	}
	// This comes before the records have their positions: a call of Seen that
	// begins after Commit returns must find them.
	for i := range recs {
		s.overlay.AddLinks(recs[i].Links)
	}
	s.enqueued(int64(len(e.buf) + recordOverhead*len(recs)))
	var placed func(frontier.Position)
	if facts {
		placed = func(first frontier.Position) {
			for i := range recs {
				s.overlay.AddFacts(first+frontier.Position(i), &recs[i])
				s.view.setFacts(recs[i].Facts)
			}
		}
	}
	last, err := s.queue.put(e.buf, e.ends, placed)
	if err != nil {
		return 0, fmt.Errorf("commit: %w", err)
	}
	at := last - frontier.Position(len(recs))
	for i := range recs {
		at++
		for j := range recs[i].Links {
			recs[i].Links[j].At.Position = at
		}
		for j := range recs[i].Visits {
			recs[i].Visits[j].At.Position = at
		}
	}
	return at, nil
}

// canSplit reports whether a record that is too large becomes smaller without half of its
// links. One link may be too large by itself, because its finish holds facts.
func (s *Store) canSplit(r *frontier.Record) bool {
	switch len(r.Links) + len(r.Sent) {
	case 0:
		return false
	case 1:
		return len(record.Append(nil, s.run, &frontier.Record{Links: r.Links, Sent: r.Sent},
			&s.bodies)) <= MaxRecordSize
	}
	return true
}

// split returns the records with the one at i replaced by two: the first half of its
// links, or if it has none, of those that it sends, and the rest.
func split(recs []frontier.Record, i int) []frontier.Record {
	first, rest := frontier.Record{}, recs[i]
	if len(rest.Links) > 0 {
		first.Links, rest.Links = halve(rest.Links)
	} else {
		first.Sent, rest.Sent = halve(rest.Sent)
	}
	return slices.Concat(recs[:i], []frontier.Record{first, rest}, recs[i+1:])
}

func halve(links []frontier.Link) (first, rest []frontier.Link) {
	half := (len(links) + 1) / 2
	return links[:half], links[half:]
}

// checkNames refuses names that Badger cannot have as keys. It must happen before
// they are in the log, which would be applied again and again.
func checkNames(r *frontier.Record) error {
	longest := 0
	for i := range r.Facts {
		longest = max(longest, len(r.Facts[i].Name))
	}
	for i := range r.Origins {
		longest = max(longest, len(r.Origins[i].Origin))
	}
	if longest > maxName {
		return fmt.Errorf("commit a name of %d bytes: %w", longest, ErrTooLarge)
	}
	return nil
}

// Ready waits while more than Options.QueueBytes is committed and not yet
// applied. Call it before committing in bulk, with no locks held.
func (s *Store) Ready(ctx context.Context) error {
	return s.wait(ctx, func() bool { return s.queued <= s.opts.QueueBytes })
}

// Flush waits until all that was committed before the call is durable and
// applied.
func (s *Store) Flush(ctx context.Context) error {
	return s.flush(ctx)
}

// Run is the number of this run: 1 for the first, and one more with each Open.
func (s *Store) Run() uint64 { return s.run }

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Seed is the hash seed of the crawl, for callers that make a hasher of their own.
func (s *Store) Seed() uint64 { return s.seed }

// Hasher makes keys and host ids of this crawl.
func (s *Store) Hasher() weburl.Hasher { return weburl.NewHasher(s.seed) }

// Recovery says what Open found and did.
func (s *Store) Recovery() Recovery { return s.found }

// UncleanEnds returns at how many unclean ends of runs the page was in flight, and at how many of them, up to two, it
// was in flight alone. Both are zero once the page is finished.
func (s *Store) UncleanEnds(k weburl.Key) (n, alone int) {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	ends := s.view.crashes[k]
	return ends.Count, ends.Alone
}

// Facts returns the facts of the crawl as committed. The map is the caller's.
func (s *Store) Facts() map[string][]byte {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	m := make(map[string][]byte, len(s.view.facts))
	for name, value := range s.view.facts {
		m[name] = append([]byte{}, value...)
	}
	return m
}

// Fact returns the value of one of the facts of the crawl, nil if there is none.
func (s *Store) Fact(name string) []byte {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	return slices.Clone(s.view.facts[name])
}

// FactsLike returns the facts of the crawl whose names begin with one of the given texts. The map is the caller's.
func (s *Store) FactsLike(beginnings ...string) map[string][]byte {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	m := map[string][]byte{}
	for name, value := range s.view.facts {
		if slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(name, b) }) {
			m[name] = append([]byte{}, value...)
		}
	}
	return m
}

// PartitionCounters returns the counts of one partition as applied.
func (s *Store) PartitionCounters(p uint8) Counters {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	return s.view.reached.parts[p].counters
}

// Counters returns the counts as applied, over all partitions.
func (s *Store) Counters() Counters {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	return s.view.reached.total()
}

// Close makes durable what was committed, writes down that the run ended
// cleanly, and unlocks the directory. It returns the error that failed the
// store, if one did. Further calls return the same.
func (s *Store) Close() error {
	return s.closeOnce()
}

func (s *Store) closeAll() error {
	// The end of the run goes to the journal even if Badger has failed: the pages in flight are not the cause of this
	// end.
	var last []byte
	if s.opts.view() == nil && s.opts.Mode != ReadOnly {
		last = record.AppendClosed(nil, s.run, s.parts.opened(), nil)
	}
	s.queue.end(ErrClosed, last)
	close(s.keeper.stop)
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-s.broken:
	}
	err := s.failed()
	if err == nil {
		err = s.keeper.sync()
	}
	s.fail(ErrClosed)
	// A checkpoint under way writes to the directory; one that comes later
	// finds the store closed.
	s.checkpoints.making.Lock()
	defer s.checkpoints.making.Unlock()
	if s.inflight != nil {
		err = errors.Join(err, z.Munmap(s.inflight))
		s.inflight = nil
	}
	if err != nil {
		err = errors.Join(err, s.abandon(ended))
	} else {
		err = errors.Join(s.access.close(s.view), s.journal.Close(), s.lock.Release())
	}
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// abandonAfter is how long a store that failed waits for Badger to close.
const abandonAfter = 10 * time.Second

// abandon closes what it can of a store that failed. Badger retries without end
// to write a memtable that the disk does not take; meanwhile the applier waits
// and Badger does not close. If the disk is full, the write ends the process.
// In both cases Badger is left open, and the directory stays locked until
// Reclaim or the end of the process. Nothing is lost: the journal has what
// Badger did not write.
func (s *Store) abandon(ended <-chan struct{}) error {
	closed, closeJournal := make(chan error, 1), sync.OnceValue(s.journal.Close)
	begin := sync.OnceFunc(func() {
		go func() {
			err := s.access.close(s.view)
			<-ended
			closed <- err
		}()
	})
	s.reclaim = func() error {
		// Badger writes a memtable when it closes. Other files may have taken what MinFree left for it.
		if s.opts.space().Below(s.dir, 4) {
			return fmt.Errorf("%s: %w: Badger is left open", s.dir, ErrDiskFull)
		}
		begin()
		t := time.NewTimer(abandonAfter)
		defer t.Stop()
		select {
		case err := <-closed:
			s.reclaim = nil
			return errors.Join(err, closeJournal(), s.lock.Release())
		case <-t.C:
			return errors.New("badger does not close")
		}
	}
	err := s.reclaim()
	if errors.Is(err, ErrDiskFull) {
		err = errors.Join(err, closeJournal())
	}
	return err
}

// Reclaim closes what Close had to leave open because the disk was full, and unlocks the directory, so that this
// process can open it again. It returns an error while that is not possible; call it again when the disk has space. An
// error of the closing itself is returned once. Close must have returned.
func (s *Store) Reclaim() error {
	s.checkpoints.making.Lock()
	defer s.checkpoints.making.Unlock()
	if s.reclaim == nil {
		return nil
	}
	return s.reclaim()
}
