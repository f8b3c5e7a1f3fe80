package urlqueue

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/wal"
)

const (
	formatName    = "FRONTIER" // makes a directory one of this package; holds the secret of the hashes
	formatMagic   = "mwurlque"
	formatVersion = 1
	logName       = "wal"

	maxQueue = math.MaxUint32 - 1

	batchLimit   = 8 << 20 // bytes that wait for the disk; calls wait for room beyond it
	defaultDelay = 1       // seconds between two answers with URLs of one queue, as in the reference implementation
)

var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("the URL queues are closed")

	// ErrNotOurs says that a directory holds files, but no URL queues.
	ErrNotOurs = errors.New("the directory holds other files and no frontier")

	// ErrNotFound says that there is no such queue or URL.
	ErrNotFound = errors.New("not found")
)

// Options are the settings of a store.
type Options struct {
	MinFree     int64       // puts fail while less than this is free on the disk, in bytes; negative is not to look
	SegmentSize int64       // of the log; zero is 64 MiB
	Failed      func(error) // is called once if the disk fails, with the store locked; nil is nothing

	fs wal.FS // of the log, for tests; nil is the operating system
}

// A Ticket stands for a change and all before it. See Wait.
type Ticket uint64

// Store is an open directory. Its methods may be called from several goroutines.
type Store struct {
	dir     string
	opts    Options
	lock    *disk.Lock
	log     *wal.Log
	hash    weburl.Hasher
	writer  sync.WaitGroup // the goroutine write
	helpers sync.WaitGroup // the goroutines clean and watch, which end before write does
	full    atomic.Bool    // written by watch: the disk has less free space than MinFree
	durable atomic.Uint64  // last record that is on disk; written by write, with mu held
	stop    chan struct{}  // closed by Close
	grown   chan struct{}  // has room for one; the writer sends: the log may need cleaning

	mu       sync.Mutex
	changed  sync.Cond // of mu: records wait, room for records, something durable, failed, closing
	index    *index
	queues   []*queue // by id; nil where none is
	crawls   map[string]*crawl
	order    []*crawl // the same, for GetURLs over all crawls
	turn     int      // crawl that the next Take over all crawls begins with
	calls    uint64   // calls of Take so far
	fill     *batch   // records that no write has taken yet
	next     uint64   // number of the next record
	compact  uint64   // the next record when cleaning gained nothing: it is not tried again before that is written
	live     int64    // bytes of the records that the index points to
	delay    int64    // seconds, of queues that have none of their own
	inactive bool
	settings uint64 // record that holds delay and inactive; zero if none does
	err      error  // why the store failed, for good
	closing  bool   // no call commits any more, but the cleaner may
	ended    bool   // nothing is committed any more
}

// batch is records on their way to the log.
type batch struct {
	buf  []byte
	ends []int    // where each record ends in buf
	ids  []uint32 // the entry whose place is that of the record, or none
}

// Open opens the queues in dir, and makes them if the directory is empty or missing. If another process has them open,
// the error is a *disk.LockedError.
func Open(dir string, o Options) (*Store, error) {
	if err := wal.OS().MkdirAll(dir); err != nil { // durably
		return nil, err
	}
	if err := ours(dir); err != nil {
		return nil, err
	}
	lock, err := disk.Acquire(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, opts: o, lock: lock, index: newIndex(), crawls: make(map[string]*crawl),
		fill: new(batch), delay: defaultDelay, stop: make(chan struct{}), grown: make(chan struct{}, 1)}
	s.changed.L = &s.mu
	if err := s.open(); err != nil {
		if s.log != nil {
			err = errors.Join(err, s.log.Close())
		}
		return nil, errors.Join(err, lock.Release())
	}
	s.writer.Go(s.write)
	s.helpers.Go(s.clean)
	s.helpers.Go(s.watch)
	return s, nil
}

// ours returns ErrNotOurs for a directory that holds files of others.
func ours(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, formatName)); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if n := name.Name(); n != disk.LockName && n != formatName+disk.TempSuffix {
			return fmt.Errorf("%s: %w", dir, ErrNotOurs)
		}
	}
	return nil
}

func (s *Store) open() error {
	path := filepath.Join(s.dir, formatName)
	body, err := disk.ReadSmallFrame(path, formatMagic, formatVersion)
	if errors.Is(err, os.ErrNotExist) {
		body = binary.LittleEndian.AppendUint64(nil, rand.Uint64())
		_, err = disk.WriteFrame(path, formatMagic, formatVersion, func(w io.Writer) error {
			_, err := w.Write(body)
			return err
		})
	}
	if err != nil {
		return err
	}
	if len(body) != 8 {
		return &disk.CorruptError{What: path, Reason: "it has not the length of a secret"}
	}
	s.hash = weburl.NewHasher(binary.LittleEndian.Uint64(body))
	if s.log, err = wal.Open(filepath.Join(s.dir, logName), wal.Options{SegmentSize: s.opts.SegmentSize,
		FS: s.opts.fs}); err != nil {
		return err
	}
	return s.recover()
}

// Close waits until all that was committed is durable, and ends. It returns why the store failed, if it did.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closing = true
	close(s.stop)
	s.changed.Broadcast()
	s.mu.Unlock()
	s.helpers.Wait()
	s.mu.Lock()
	s.ended = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.writer.Wait()
	return errors.Join(s.err, s.log.Close(), s.lock.Release())
}

// usableLocked says why the store takes no calls, or nil.
func (s *Store) usableLocked() error {
	if s.closing {
		return cmp.Or(s.err, ErrClosed)
	}
	return s.err
}

// failLocked ends the use of the store: what memory says is no longer what the disk holds.
func (s *Store) failLocked(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	s.changed.Broadcast()
	if s.opts.Failed != nil {
		s.opts.Failed(err)
	}
}

// roomLocked waits until the batch that is filled has room.
func (s *Store) roomLocked() error {
	for len(s.fill.buf) >= batchLimit && s.usableLocked() == nil {
		s.changed.Wait()
	}
	return s.usableLocked()
}

// commitLocked ends the record that the caller has appended to s.fill.buf. The entry id, unless it is none, lies there
// from now on.
func (s *Store) commitLocked(id uint32) (lsn uint64, size int) {
	b := s.fill
	start := 0
	if n := len(b.ends); n > 0 {
		start = b.ends[n-1]
	} else {
		s.changed.Broadcast() // the writer waits
	}
	b.ends, b.ids = append(b.ends, len(b.buf)), append(b.ids, id)
	lsn, size = s.next, len(b.buf)-start
	s.next++
	return lsn, size
}

// moveLocked makes a record the one that an entry lies in.
func (s *Store) moveLocked(e *entry, lsn uint64, size int) {
	s.live += int64(size) - int64(e.size)
	e.lsn, e.offset, e.size = lsn, 0, uint32(size)
}

func (s *Store) ticketLocked() Ticket { return Ticket(s.next - 1) }

// Wait returns when the change that a ticket stands for is on disk, with all before it.
func (s *Store) Wait(t Ticket) error {
	if s.durable.Load() >= uint64(t) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.durable.Load() < uint64(t) && s.err == nil {
		s.changed.Wait()
	}
	return s.err
}

// write is the goroutine that appends records to the log. While it waits for the disk, the next batch fills.
func (s *Store) write() {
	spare := new(batch)
	var recs [][]byte
	for {
		s.mu.Lock()
		for len(s.fill.ends) == 0 && !s.ended && s.err == nil {
			s.changed.Wait()
		}
		if len(s.fill.ends) == 0 || s.err != nil {
			s.mu.Unlock()
			return
		}
		b := s.fill
		s.fill = spare
		s.changed.Broadcast() // there is room
		s.mu.Unlock()

		recs = recs[:0]
		start := 0
		for _, end := range b.ends {
			recs = append(recs, b.buf[start:end])
			start = end
		}
		place, err := s.log.AppendPlaced(recs...)
		s.mu.Lock()
		if err != nil {
			s.failLocked(err)
			s.mu.Unlock()
			return
		}
		for i, id := range b.ids {
			if id != none {
				if e := s.index.at(id); e.lsn == uint64(place.LSN) {
					e.offset = uint32(place.Offset)
				}
			}
			place = place.Next(len(recs[i]))
		}
		s.durable.Store(uint64(place.LSN) - 1)
		s.changed.Broadcast()
		wasteful := s.wastefulLocked()
		s.mu.Unlock()
		if wasteful {
			select {
			case s.grown <- struct{}{}:
			default: // the cleaner knows
			}
		}
		b.buf, b.ends, b.ids = b.buf[:0], b.ends[:0], b.ids[:0]
		spare = b
	}
}

// watch looks at the free space of the disk.
func (s *Store) watch() {
	space := disk.Space{Min: s.opts.MinFree, Free: disk.FreeBytes}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		s.full.Store(errors.Is(space.Check(s.dir, 0), disk.ErrFull))
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
	}
}

// Full reports whether puts fail because the disk is nearly full.
func (s *Store) Full() bool { return s.full.Load() }
