package state

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/state/internal/badgerfiles"
)

// A stallingLogger makes Badger stand still when it first has to make room for a
// write, which it tells its logger.
type stallingLogger struct {
	once             sync.Once
	stalled, release chan struct{}
}

func (l *stallingLogger) Errorf(string, ...any)   {}
func (l *stallingLogger) Warningf(string, ...any) {}
func (l *stallingLogger) Infof(string, ...any)    {}

func (l *stallingLogger) Debugf(format string, _ ...any) {
	if strings.HasPrefix(format, "Flushing memtable") {
		l.once.Do(func() {
			close(l.stalled)
			<-l.release
		})
	}
}

// While Badger writes a transaction, the next one is put together.
func TestApplierWorksWhileBadgerWrites(t *testing.T) {
	o, err := Options{MemTableSize: 1 << 20, MinFree: Off}.validate()
	if err != nil {
		t.Fatal(err)
	}
	l := &stallingLogger{stalled: make(chan struct{}), release: make(chan struct{})}
	db, err := badger.Open(badgerfiles.Settings(t.TempDir(), o.badger(nil)).WithLogger(l))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	v := &view{db: db, reached: progress{inflight: map[urlnorm.Key]struct{}{}}}
	defer v.newest.end()
	var got applied
	a := newApplier(v, o, func(done applied) { got.seq, got.cost = done.seq, got.cost+done.cost })

	h := urlnorm.NewHasher(1)
	seq := uint64(0)
	add := func() error {
		seq++
		var rec Record
		for i := range 300 {
			url := fmt.Sprintf("http://a.example/%d/%d", seq, i)
			rec.Links = append(rec.Links, Link{Key: h.KeyOf(1, []byte(url)), URL: url})
		}
		return a.add(seq, appendRecord(nil, 1, &rec), 1)
	}
	for stalled := false; !stalled; {
		if err := add(); err != nil {
			t.Fatal(err)
		}
		if err := a.commit(nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.stalled:
			stalled = true
		case err := <-a.out.ended:
			a.out.ended <- err
			if err := a.await(); err != nil {
				t.Fatal(err)
			}
		}
	}
	added := make(chan error, 1)
	go func() { added <- add() }()
	select {
	case err = <-added:
		close(l.release)
	case <-time.After(2 * time.Minute):
		t.Error("the next transaction waits for Badger")
		close(l.release)
		err = <-added
	}
	if err == nil {
		err = a.flush()
	}
	if err == nil {
		err = a.commit(nil)
	}
	if err == nil {
		err = a.await()
	}
	if err != nil || got.seq != seq || got.cost != int64(seq) {
		t.Errorf("%d of %d records are there, %d were counted: %v", got.seq, seq, got.cost, err)
	}
	if a.txn != nil {
		t.Error("an empty transaction is left open")
	}
}
