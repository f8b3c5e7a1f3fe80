package txn

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/state/internal/badgerfiles"
)

// A stallingLogger makes Badger stop when it first has to make space for a write, which it tells its logger.
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

func open(t *testing.T, l badger.Logger) *badger.DB {
	t.Helper()
	o := badgerfiles.Options{MemTableSize: 1 << 20, ValueLogFileSize: 1 << 20}
	db, err := badger.Open(badgerfiles.Settings(t.TempDir(), o).WithLogger(l))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// keysOf counts the entries.
func keysOf(db *badger.DB) (n int) {
	txn := db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		n++
	}
	return n
}

// While Badger writes a transaction, the next one is put together.
func TestWriterWorksWhileBadgerWrites(t *testing.T) {
	l := &stallingLogger{stalled: make(chan struct{}), release: make(chan struct{})}
	db := open(t, l)
	w := NewWriter(db)
	n := 0
	add := func() error {
		for range 300 {
			n++
			if err := w.Set(fmt.Appendf(nil, "key %020d", n), make([]byte, 100)); err != nil {
				return err
			}
		}
		return nil
	}
	for stalled := false; !stalled; {
		if err := add(); err != nil {
			t.Fatal(err)
		}
		w.Send()
		select {
		case <-l.stalled:
			stalled = true
		case err := <-w.sent.ended:
			w.sent.ended <- err
			if err := w.Await(); err != nil {
				t.Fatal(err)
			}
		}
	}
	added := make(chan error, 1)
	go func() { added <- add() }()
	var err error
	select {
	case err = <-added:
		close(l.release)
	case <-time.After(2 * time.Minute):
		t.Error("the next transaction waits for Badger")
		close(l.release)
		err = <-added
	}
	if err == nil {
		err = w.Await()
	}
	if err == nil {
		w.Send()
		err = w.Await()
	}
	if got := keysOf(db); err != nil || got != n {
		t.Errorf("%d of %d entries are there: %v", got, n, err)
	}
	w.Discard()
}

// TestHasRoom fills transactions as far as there is space, with values beside the keys and in the value log. Badger
// takes each one.
func TestHasRoom(t *testing.T) {
	db := open(t, nil)
	w := NewWriter(db)
	n := 0
	for _, size := range []int{0, badgerfiles.ValueThreshold - 1, badgerfiles.ValueThreshold, 5000} {
		added := 0
		for ; w.HasRoom(24, size); added++ {
			n++
			if err := w.Set(fmt.Appendf(nil, "key %020d", n), make([]byte, size)); err != nil {
				t.Fatalf("entry %d with %d bytes: %v", added, size, err)
			}
		}
		if added == 0 || !w.Full(1) && !w.Full(2) {
			t.Errorf("no space after %d entries with %d bytes", added, size)
		}
		w.Send()
		if !w.Empty() || !w.Sending() {
			t.Error("the next transaction is not empty")
		}
		if err := w.Await(); err != nil {
			t.Fatal(err)
		}
	}
	w.Discard()
	if got := keysOf(db); got != n {
		t.Errorf("%d of %d entries are there", got, n)
	}
}

// TestReserved: space that is reserved is counted, and the value is not copied before it is sent.
func TestReserved(t *testing.T) {
	db := open(t, nil)
	w := NewWriter(db)
	w.Reserve(5, 3)
	if w.Empty() {
		t.Error("reserved space does not count")
	}
	key, value := []byte("first"), []byte("old")
	if err := w.SetReserved(key, value, 7); err != nil {
		t.Fatal(err)
	}
	copy(key, "other")
	copy(value, "new")
	w.Send()
	if err := w.Await(); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete([]byte("first")); err != nil {
		t.Fatal(err)
	}
	w.Discard() // the deletion is dropped
	err := db.View(func(txn *badger.Txn) error {
		item, err := txn.Get([]byte("first"))
		if err != nil {
			return err
		}
		got, err := item.ValueCopy(nil)
		if string(got) != "new" || item.UserMeta() != 7 {
			t.Errorf("value %q, meta %d", got, item.UserMeta())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
