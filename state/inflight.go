package state

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

const (
	inflightName = "INFLIGHT"

	// inflightSize is the length of an entry of the file. A page of memory holds a whole number of them, so the kernel
	// takes each write of one as a whole or not at all.
	inflightSize = 64

	inflightVersion = 1

	// Flags of an entry.
	inflightAlone   = 1
	inflightSitemap = 2
)

// openInFlight opens the file that has for each worker the page or sitemap that it took last, and the run in which it did.
// Nothing in it is synced: it outlives the process, and a machine that loses its power does not point to a page.
func openInFlight(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, inflightName), os.O_RDWR|os.O_CREATE, 0o600)
}

// An inflightEntry is what the file says of a worker.
type inflightEntry struct {
	run   uint64
	link  frontier.Link // Key, Visit and Sitemap
	alone bool
}

func (e *inflightEntry) encode() (b [inflightSize]byte) {
	b[0] = inflightVersion
	b[1] = record.Flag(e.alone, inflightAlone) | record.Flag(e.link.Sitemap, inflightSitemap)
	binary.BigEndian.PutUint32(b[4:], e.link.Visit)
	binary.BigEndian.PutUint64(b[8:], e.run)
	e.link.Key.Append(b[16:16])
	binary.BigEndian.PutUint32(b[inflightSize-4:], crc32.ChecksumIEEE(b[:inflightSize-4]))
	return b
}

// decodeInFlight returns false for an entry that is empty, or that a loss of power has damaged.
func decodeInFlight(b []byte) (e inflightEntry, ok bool) {
	sum := binary.BigEndian.Uint32(b[inflightSize-4:])
	if b[0] != inflightVersion || sum != crc32.ChecksumIEEE(b[:inflightSize-4]) {
		return e, false
	}
	e.alone, e.link.Sitemap = b[1]&inflightAlone != 0, b[1]&inflightSitemap != 0
	e.link.Visit, e.run = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint64(b[8:])
	r := record.Reader{B: b[16:]}
	e.link.Key = r.Key()
	return e, true
}

// SetInFlight notes which page or sitemap a worker reads from now on, in case the process ends: the link's Key, Visit
// and Sitemap. Workers count from 0. The note holds until the link is finished in this visit, the worker's next call,
// or a clean end. It is not for a store with a SharedJournal, whose directory is not opened again: there a
// [frontier.Record] says it.
func (s *Store) SetInFlight(worker int, l *frontier.Link, alone bool) error {
	e := inflightEntry{run: s.run, link: *l, alone: alone}
	return s.writeInFlight(worker, e.encode())
}

// ClearInFlight notes that a worker reads nothing.
func (s *Store) ClearInFlight(worker int) error {
	return s.writeInFlight(worker, [inflightSize]byte{})
}

func (s *Store) writeInFlight(worker int, entry [inflightSize]byte) error {
	if _, err := s.inflight.WriteAt(entry[:], int64(worker)*inflightSize); err != nil {
		return fmt.Errorf("note what is in flight: %w", err)
	}
	return nil
}

// readInFlight adds what the file says of a run that ended without notice, and that is not finished. Entries of other
// runs were counted when these ended, or ended in good order.
func (s opening) readInFlight(run uint64, pages map[frontier.Key]bool) error {
	all, err := os.ReadFile(s.inflight.Name())
	if err != nil {
		return err
	}
	return s.view.db.View(func(txn *badger.Txn) error {
		for ; len(all) >= inflightSize; all = all[inflightSize:] {
			e, ok := decodeInFlight(all[:inflightSize])
			if !ok || e.run != run {
				continue
			}
			done, err := finished(txn, &e.link)
			if err != nil {
				return err
			}
			if !done {
				pages[e.link.Key] = pages[e.link.Key] || e.alone
			}
		}
		return nil
	})
}
