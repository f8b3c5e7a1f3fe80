package state

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/record"
)

const (
	inflightName = "INFLIGHT"

	inflightSize = 64 // of an entry

	inflightVersion = 1

	// Flags of an entry.
	inflightAlone   = 1
	inflightSitemap = 2
)

// mapInFlight maps the file that says, for each worker, which page or sitemap it reads, and in which run. The file is
// never synced: it survives a kill of the process, and a loss of power makes no page a suspect. Its space on the disk
// is taken before it is mapped.
func mapInFlight(path string, workers int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	has, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	size := int64(workers) * inflightSize
	if _, err := f.Write(make([]byte, max(0, size-has))); err != nil {
		return nil, err
	}
	return z.Mmap(f, true, size)
}

// An inflightEntry is what the file says of a worker.
type inflightEntry struct {
	run   uint64
	link  frontier.Link // Key, Visit and Sitemap
	alone bool
}

// putInFlight writes an entry in place. The checksum at its end shows whether an entry is complete.
func putInFlight(b []byte, run uint64, l *frontier.Link, alone bool) {
	b[0] = inflightVersion
	b[1] = record.Flag(alone, inflightAlone) | record.Flag(l.Sitemap, inflightSitemap)
	binary.BigEndian.PutUint32(b[4:], l.Visit)
	binary.BigEndian.PutUint64(b[8:], run)
	l.Key.Append(b[16:16])
	binary.BigEndian.PutUint32(b[inflightSize-4:], crc32.ChecksumIEEE(b[:inflightSize-4]))
}

// decodeInFlight returns false for an entry that is empty, or that was being written when the process ended, or that a
// loss of power has damaged.
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
// and Sitemap; nil means that it reads nothing. A worker is a number below Options.Workers. The note holds until the
// link is finished in this visit, the worker's next call, or a clean end. It is not for a store with a SharedJournal,
// whose directory is not opened again: there [frontier.Lease.RecordInFlight] does this. It must not be called after
// Close.
func (s *Store) SetInFlight(worker int, l *frontier.Link, alone bool) {
	entry := s.inflight[worker*inflightSize : (worker+1)*inflightSize]
	if l == nil {
		clear(entry)
	} else {
		putInFlight(entry, s.run, l, alone)
	}
}

// readInFlight adds the links that a run had in flight when it ended uncleanly, and that are not finished. It skips
// entries of other runs: those ended cleanly, or their entries were counted after their end.
func (s *Store) readInFlight(run uint64, pages map[weburl.Key]bool) error {
	all, err := os.ReadFile(filepath.Join(s.dir, inflightName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
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
