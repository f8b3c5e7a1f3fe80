package wal

import "time"

// Stats are counts since Open. Durations are of this process's clock.
type Stats struct {
	Records uint64 // records made durable
	Batches uint64 // group commits: each has one fsync
	Payload int64  // bytes of those records
	Written int64  // bytes written for them, padding included

	SyncTotal time.Duration // time spent in the fsyncs of batches
	SyncMax   time.Duration // longest of them
	SyncMean  time.Duration // exponentially weighted, the last about 16 count
	// CommitMean is as SyncMean, of write, rotation and fsync together.
	CommitMean time.Duration

	Segments int // segments now kept
}

const meanWeight = 16

func (s *Stats) committed(b *batch, fsync, whole time.Duration) {
	s.Records += uint64(b.records)
	s.Payload += b.payload
	s.Written += int64(len(b.buf))
	s.SyncTotal += fsync
	s.SyncMax = max(s.SyncMax, fsync)
	if s.Batches == 0 {
		s.SyncMean, s.CommitMean = fsync, whole
	} else {
		s.SyncMean += (fsync - s.SyncMean) / meanWeight
		s.CommitMean += (whole - s.CommitMean) / meanWeight
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
