package state

import (
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
)

// Stats are figures of this run.
type Stats struct {
	Committed frontier.Position // of the last record committed
	Durable   frontier.Position // up to here the journal is durable
	Applied   frontier.Position // up to here Badger has it
	Synced    frontier.Position // up to here Badger is durable

	QueuedBytes int64 // committed and not yet applied

	// CommitLatency is how long it takes from Commit until a record is durable:
	// a moving average over the last batches, or how long the oldest one that
	// is not durable has waited, if that is more.
	CommitLatency time.Duration

	LogBytes   int64         // size of the log
	LogSpare   int64         // bytes of the disk that the log has set aside beside these
	LogWritten int64         // bytes written to the log, padding included
	LogSyncs   uint64        // fsyncs of the log
	SyncMean   time.Duration // moving average of their duration
	TableBytes int64         // size of Badger's tables
	ValueBytes int64         // size of Badger's value log

	Checkpoints    uint64
	LastCheckpoint time.Duration // how long the last one took
}

// Stats returns the figures as they are now.
func (s *Store) Stats() Stats {
	var st Stats
	var oldest time.Time
	st.Committed, oldest = s.queue.last()
	st.Durable, st.Applied, st.QueuedBytes = s.marks()
	st.CommitLatency = s.pipeline.latency.get(oldest)
	j := s.journal.Stats()
	st.LogBytes, st.LogSpare = j.Size, j.Reserved
	st.LogWritten, st.LogSyncs, st.SyncMean = j.Written, j.Syncs, j.SyncMean
	st.Synced = frontier.Position(s.keeper.synced.Load())
	use := s.keeper.use.Load()
	st.TableBytes, st.ValueBytes = use.Tables, use.Values
	s.checkpoints.stats(&st)
	return st
}

// latencyWeight is the weight of the past in the moving averages: about the last eight batches count.
const latencyWeight = 8

type latencies struct {
	mu      sync.Mutex
	durable time.Duration // guarded by mu; moving average
	waiting time.Time     // guarded by mu; when the first record of the batch that is being appended was committed
}

func (l *latencies) appending(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = since
}

func (l *latencies) appended(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = time.Time{}
	if l.durable == 0 {
		l.durable = took
	}
	l.durable += (took - l.durable) / latencyWeight
}

// get returns the average. Oldest is when the oldest record that was not yet
// taken by the writer was committed.
func (l *latencies) get(oldest time.Time) (durable time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.waiting.IsZero() {
		oldest = l.waiting
	}
	durable = l.durable
	if !oldest.IsZero() {
		durable = max(durable, time.Since(oldest))
	}
	return durable
}
