package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/state/internal/badgerfiles"
	"github.com/mapwright/mapwright/state/internal/record"
	"github.com/mapwright/mapwright/wal"
)

// Recovery says what Open found and did.
type Recovery struct {
	Created bool // there was no store; there is one now

	// Unclean is set if the run before did not end with Close. InFlight is how
	// many pages it had leased and neither finished nor returned.
	Unclean  bool
	InFlight int

	// Applied is how many records of the log were applied again.
	Applied uint64
	Took    time.Duration

	// TornTail is what was cut from the end of the log, or nil.
	TornTail *wal.TornTail

	// Snapshots is why checkpoints could not be read, or nil. Filters then have
	// to be made anew.
	Snapshots error
}

// Open opens the store in dir, making or recovering it as need be. Errors that
// a caller may want to tell apart are *LockedError, *VersionError, *IdentityError,
// ErrNotOurs, ErrExists, ErrNotExist, *CorruptError and *wal.CorruptError.
func Open(dir string, o Options) (*Store, error) {
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	a := newAccess(filepath.Join(dir, badgerDir), o)
	p := newPipeline(a, &o)
	s := &Store{access: a, dir: dir, opts: o, overlay: p.overlay, pipeline: p}
	s.closeOnce = sync.OnceValue(s.closeAll)
	if err := s.acquire(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := s.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.giveBack())
	}
	s.start()
	return s, nil
}

// The methods that follow open a store. Only Open uses them.

// acquire finds out what dir holds, locks it, and makes it a store if it may.
func (s *Store) acquire() error {
	exists, f, err := look(s.dir)
	if err == nil {
		err = s.checkFound(exists, f)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(s.dir)), 0o700); err != nil {
		return err
	}
	err = os.Mkdir(s.dir, 0o700)
	if s.isNewDir = err == nil; err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if s.lock, err = disk.Acquire(s.dir); err != nil {
		if _, locked := errors.AsType[*disk.LockedError](err); s.isNewDir && !locked { // the disk may be full
			_ = os.Remove(filepath.Join(s.dir, disk.LockName))
			_ = os.Remove(s.dir)
		}
		return err
	}
	// Another process may have made or deleted the store before the lock was taken.
	exists, f, err = look(s.dir)
	if err == nil {
		s.seed = f.seed
		err = s.checkFound(exists, f)
	}
	if err == nil && !exists {
		if err = s.create(); err != nil {
			return errors.Join(err, s.uncreate())
		}
	}
	if err != nil {
		return errors.Join(err, s.lock.Release())
	}
	return nil
}

// uncreate removes a store that could not be made, and releases the lock. The directory goes too if Open has made it.
func (s *Store) uncreate() error {
	err := errors.Join(removeStore(s.dir), releaseRemoved(s.dir, s.lock))
	if s.isNewDir {
		_ = os.Remove(s.dir) // unless there is something else in it
	}
	return err
}

// checkFound returns why the store must not be opened: by its mode, or by the
// format of a store that exists.
func (s *Store) checkFound(exists bool, f format) error {
	switch {
	case exists && s.opts.Mode == CreateOnly:
		return fmt.Errorf("%s: %w", s.dir, ErrExists)
	case !exists && s.opts.Mode >= ExistingOnly:
		return fmt.Errorf("%s: %w", s.dir, ErrNotExist)
	case exists && f.crawl != [16]byte{}:
		return fmt.Errorf("%s: %w", s.dir, errView)
	case exists:
		return f.checkIdentity(s.dir)
	}
	return nil
}

func (s *Store) create() error {
	if err := s.checkSpace(); err != nil {
		return err
	}
	s.seed = cmp.Or(s.opts.Seed, randomSeed())
	s.found.Created = true
	f := format{seed: s.seed, created: time.Now(), identity: weburl.Identity()}
	if v := s.opts.view(); v != nil {
		f.crawl, _ = v.View()
	}
	if err := writeFormat(s.dir, f); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(s.dir))
}

// OpenBytes is how much of the disk an open store takes beside what it has recorded:
// the space that its log reserves. Open fails with ErrDiskFull unless MinFree is left
// after that.
const OpenBytes = wal.DefaultSegmentSize

// checkSpace refuses a disk on which MinFree would not be left after the log has
// allocated a segment, which no reader does. Opening a store writes to files that Badger maps, and a
// write to a map that the disk has no space for kills the process.
func (s *Store) checkSpace() error {
	takes := cmp.Or(s.opts.Log.SegmentSize, OpenBytes)
	if s.opts.Mode == ReadOnly {
		takes = 0
	}
	return s.opts.space().Check(s.dir, takes)
}

// giveBack undoes a recovery that failed. A store that could not be made is
// removed, so that it can be made when the cause is gone.
func (s *Store) giveBack() error {
	var errs []error
	if s.view != nil {
		s.pipeline.applier.txns.Discard()
		s.view.newest.end()
		errs = append(errs, s.view.db.Close())
	}
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	if s.inflight != nil {
		errs = append(errs, z.Munmap(s.inflight))
	}
	if s.found.Created {
		return errors.Join(append(errs, s.uncreate())...)
	}
	return errors.Join(append(errs, s.lock.Release())...)
}

// recover brings journal and Badger together. DESIGN.md numbers the steps.
func (s *Store) recover() (err error) {
	defer s.guard(&err)
	start := time.Now()
	// All that can refuse the store comes first and only reads.
	reached, err := readSynced(s.badgerDir)
	if err != nil {
		return err
	}
	if err := badgerfiles.Verify(s.badgerDir, reached.files, reached.position > 0, s.opts.CheckValues); err != nil {
		return err
	}
	if !s.found.Created {
		if err := s.checkSpace(); err != nil {
			return err
		}
	}
	end, err := s.openJournal(reached.position)
	if err != nil {
		return err
	}
	for _, name := range []string{badgerDir, snapDir} {
		if err := os.MkdirAll(filepath.Join(s.dir, name), 0o700); err != nil {
			return err
		}
	}
	if err := disk.SyncDir(s.dir); err != nil {
		return err
	}
	s.checkpoints, s.found.Snapshots, err = openCheckpoints(s.access, s.journal, filepath.Join(s.dir, snapDir),
		s.opts.CheckpointBytes)
	if err != nil {
		return err
	}
	if err := s.openView(reached); err != nil {
		return err
	}
	if v := s.opts.view(); v != nil {
		_, s.run = v.View()
		s.queue.begin(1)
		s.view.newest.renew(s.view.db) // queries may come before the first record
		s.found.Took = time.Since(start)
		return s.view.loadFacts()
	}
	if err := s.replay(reached.position, end); err != nil {
		return err
	}
	if err := s.beginRun(); err != nil {
		return err
	}
	s.found.Took = time.Since(start)
	return nil
}

// openJournal opens the journal. A local log must reach at least to synced, and hold all records after it. It returns
// the last position in the journal. The end of a journal of the caller is not known; then it returns the greatest
// number.
func (s *Store) openJournal(synced frontier.Position) (end frontier.Position, err error) {
	if s.opts.Journal != nil {
		s.journal = s.opts.Journal
		return math.MaxUint64, nil
	}
	local, err := openLocalJournal(filepath.Join(s.dir, walDir), synced, s.opts.Log)
	if err != nil {
		return 0, err
	}
	s.journal, s.found.TornTail = local, local.log.Recovery()
	if first := local.first(); synced == 0 && first > 1 {
		return 0, &CorruptError{What: filepath.Join(s.badgerDir, syncedName),
			Reason: fmt.Sprintf("it is missing, and the log begins with record %d", first)}
	}
	return local.last(), nil
}

func (s *Store) openView(reached progress) error {
	files, err := badgerfiles.New(s.badgerDir, reached.files)
	if err != nil {
		return err
	}
	db, err := badgerfiles.Open(s.badgerDir, s.opts.badger(s.fail))
	if err != nil {
		return err
	}
	s.view = &view{db: db, dir: s.badgerDir, reached: reached, closings: map[uint8]frontier.Closed{}}
	s.keeper = newKeeper(s.access, s.view, files, &s.opts)
	s.checkpoints.keeper = s.keeper
	s.queries = &queries{access: s.access, view: s.view, overlay: s.overlay, journal: s.journal}
	p := s.pipeline
	p.journal, p.keeper, p.checkpoints = s.journal, s.keeper, s.checkpoints
	p.applier = newApplier(s.view, s.opts, p.committed)
	return s.view.loadCrashes()
}

// replay applies the journal from where Badger is known to be durable. Badger may hold any parts of the later records.
// All of them are written again, under the same keys, except for the blocks of queues. The journal ends with the record
// at end.
func (s *Store) replay(synced, end frontier.Position) error {
	applied, err := s.view.applied()
	if err != nil {
		return err
	}
	if applied < synced {
		return &CorruptError{What: s.badgerDir,
			Reason: fmt.Sprintf("it has reached record %d, and was durable up to record %d", applied, synced)}
	}
	if applied > end {
		return s.lostRecords(applied, end)
	}
	a := s.pipeline.applier
	if !s.found.Created { // a new view has no blocks
		if err := a.dropBlocks(s.journal, synced); err != nil {
			return fmt.Errorf("drop part of queues: %w", err)
		}
	}
	err = s.journal.Replay(context.Background(), everywhere(synced), func(at frontier.Position, rec []byte) error {
		s.found.Applied++
		s.keeper.unsynced.Add(int64(len(rec)))
		return a.add(at, rec, 0)
	})
	if err == nil {
		err = a.commitAndWait()
	}
	if err != nil {
		return fmt.Errorf("replay journal: %w", err)
	}
	return s.view.loadFacts()
}

// lostRecords is the error for a log that ends before what Badger holds. Records are
// applied only when they are durable, so something of the log is gone. Badger cannot
// give it back, and the positions must not be given to other records.
func (s *Store) lostRecords(applied, end frontier.Position) error {
	e := &wal.CorruptError{
		Segment: filepath.Join(s.dir, walDir), Next: wal.LSN(end + 1),
		Reason: fmt.Sprintf("the log ends with record %d, but badger holds what record %d says", end, applied),
	}
	if t := s.found.TornTail; t != nil {
		e.Segment, e.Offset = t.Segment, t.Offset
		e.Reason += ": " + t.Reason
	}
	return e
}

// beginRun writes the entry that begins this run and, if the run before ended
// uncleanly, says which pages it had in flight. A reader begins none: the next run finds out how the one before ended.
func (s *Store) beginRun() error {
	p := s.view.progress()
	s.run = p.run + 1
	crashed := map[weburl.Key]record.UncleanEnds{}
	s.found.Unclean = p.unclean()
	if s.found.Unclean {
		if err := s.readInFlight(p.run, p.inflight); err != nil {
			return fmt.Errorf("read what was in flight: %w", err)
		}
		s.found.InFlight = len(p.inflight)
		for k, alone := range p.inflight {
			crashed[k] = s.view.crashes[k].Another(alone)
		}
	}
	if s.opts.Mode == ReadOnly {
		s.queue.begin(p.position + 1)
		s.queue.end(ErrReadOnly, nil)
		s.setDurable(p.position)
		s.setApplied(p.position, 0)
		s.view.newest.renew(s.view.db)
		return s.failed()
	}
	if s.opts.Workers > 0 {
		var err error
		if s.inflight, err = mapInFlight(filepath.Join(s.dir, inflightName), s.opts.Workers); err != nil {
			return fmt.Errorf("map what is in flight: %w", err)
		}
	}
	s.parts.set = record.AllPartitions()
	rec := record.AppendOpened(nil, s.run, s.parts.set, crashed)
	s.queue.begin(p.position + 1)
	at, err := s.queue.put(rec, []int{len(rec)}, nil)
	if err != nil {
		return err
	}
	s.queue.hurry(at)
	b := s.queue.take()
	if err := s.journal.Append(context.Background(), b); err != nil {
		return fmt.Errorf("append start of run: %w", err)
	}
	s.setDurable(at)
	a := s.pipeline.applier
	err = a.add(at, rec, 0)
	if err == nil {
		err = a.commitAndWait()
	}
	if err != nil {
		return fmt.Errorf("apply start of run: %w", err)
	}
	return s.failed()
}
