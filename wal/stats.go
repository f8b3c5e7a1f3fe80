package wal

import "time"

// Stats are counts since Open. Durations are of this process's clock.
type Stats struct {
	Records uint64 // records made durable
	Batches uint64 // calls of Append that did so: each has one fsync
	Payload int64  // bytes of those records
	Written int64  // bytes written for them, padding included

	SyncTotal time.Duration // time spent in the fsyncs of batches
	SyncMax   time.Duration // longest of them
	SyncMean  time.Duration // exponentially weighted, the last about 16 count
	// CommitMean is as SyncMean, of the whole of Append.
	CommitMean time.Duration

	Segments int // segments now kept
}

const meanWeight = 16

// A commit is what one batch adds to the counts.
type commit struct {
	records int
	payload int64
	written int64
	fsync   time.Duration
	took    time.Duration
}

func (s *Stats) add(c commit) {
	s.Records += uint64(c.records)
	s.Payload += c.payload
	s.Written += c.written
	s.SyncTotal += c.fsync
	s.SyncMax = max(s.SyncMax, c.fsync)
	if s.Batches == 0 {
		s.SyncMean, s.CommitMean = c.fsync, c.took
	} else {
		s.SyncMean += (c.fsync - s.SyncMean) / meanWeight
		s.CommitMean += (c.took - s.CommitMean) / meanWeight
	}
	s.Batches++
}

// Stats returns the counts so far.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Segments = len(l.segments)
	return s
}
