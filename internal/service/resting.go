package service

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/state"
)

// RecordedPages returns the pages of a crawl that a search selects, in the order of their keys; see [report.Find]. It
// is for crawls that have written no files yet. A running crawl reads its own store; else the store is opened. The
// caller has read the crawl with Get before, which checks who may see it. A search without Until ends after a second,
// so that a filter that few pages pass does not read a whole store for one request.
func (c *Crawls) RecordedPages(ctx context.Context, id string, search report.Search) (lines []*page.Line,
	next weburl.Key, more bool, err error) {
	bounded := search.Until.IsZero()
	err = c.read(ctx, id, func(s *state.Store, types []string) (err error) {
		if bounded { // not before: opening a store can take longer
			search.Until = time.Now().Add(searchTime)
		}
		lines, next, more, err = report.Find(ctx, s, types, search)
		return err
	})
	return lines, next, more, err
}

// RecordedPage returns one page in the same way; nil if there is none; see [report.One].
func (c *Crawls) RecordedPage(ctx context.Context, id string, u weburl.URL) (line *page.Line, err error) {
	err = c.read(ctx, id, func(s *state.Store, types []string) (err error) {
		line, err = report.One(ctx, s, types, u)
		return err
	})
	return line, err
}

// MakeIndex writes the files of a crawl again, with its index of pages. The crawl must not be running; if it starts,
// MakeIndex ends. dir is its data directory.
func (c *Crawls) MakeIndex(ctx context.Context, dir string) error {
	id := filepath.Base(dir)
	if c.dispatch.runner(id) != nil {
		return pageindex.ErrBusy
	}
	account, err := One(ctx, c.s.db.Read(), Column[string], "SELECT account FROM crawl WHERE id = ?", id)
	if err != nil {
		return err
	}
	err = c.dispatch.resting.read(ctx, account, id, datadir.Dir(dir).State(),
		func(ctx context.Context, s *state.Store) error {
			return report.Rewrite(ctx, s, datadir.Dir(dir), c.dispatch.outputRoom(account, id))
		})
	if errors.Is(err, crawl.ErrNotRunning) {
		return pageindex.ErrBusy
	}
	return err
}

// How long a reader waits for a crawl that starts or ends at this moment.
const (
	mostMoves = 40
	movePause = 50 * time.Millisecond
)

// read calls the function with the store and the content types of XML sitemaps. The store is that of the running crawl,
// or is opened.
func (c *Crawls) read(ctx context.Context, id string, read func(*state.Store, []string) error) error {
	for range mostMoves {
		var err error
		if run := c.dispatch.runner(id); run != nil {
			err = run.current().Read(ctx, read)
		} else {
			err = c.readResting(ctx, id, read)
		}
		if !errors.Is(err, crawl.ErrNotRunning) {
			return err
		}
		select {
		case <-time.After(movePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return &Error{Code: ErrUnavailable, Detail: "the crawl starts or ends just now: try again"}
}

// readResting calls see with the store of a crawl that does not run. A crawl that has no store has no pages.
func (c *Crawls) readResting(ctx context.Context, id string, see func(*state.Store, []string) error) error {
	row, err := c.s.getWhole(ctx, "", id)
	if err != nil {
		return err
	}
	err = c.dispatch.resting.read(ctx, row.Account, id, c.DataDir(id).State(),
		func(_ context.Context, s *state.Store) error { return see(s, row.stored["xml-types"]) })
	switch {
	case errors.Is(err, state.ErrNotExist):
		return nil
	case errors.Is(err, state.ErrDiskFull):
		return &Error{Code: ErrUnavailable, State: row.State,
			Detail: "the pages of a crawl that does not run cannot be read while the server's disk is full: try " +
				"again when there is space"}
	}
	return err
}

const (
	mostRead    = 8                // stores that are read at once
	mostResting = 4                // stores that are open at once, if not more are read
	restingFor  = 10 * time.Second // how long a store stays open after its last use
)

// restingStores are the stores of crawls that do not run, while they are read. A crawl's own run and its removal need
// the store for themselves: they bar it before, and allow it after.
type restingStores struct {
	mu      sync.Mutex
	opened  bool                     // guarded by mu; stores may be read; false before the recovery and after the drain
	barred  map[string]bool          // guarded by mu
	closing map[string]bool          // guarded by mu; a job closes them
	all     map[string]*restingStore // guarded by mu; those that were read since they were last barred
}

// restingStore is the store of one crawl.
type restingStore struct {
	account string          // of the crawl
	use     sync.RWMutex    // held for reading while the store is read, for writing while it is opened or closed
	store   *state.Store    // guarded by use; nil if it is closed
	barred  bool            // guarded by use; it must not be opened any more
	last    atomic.Int64    // when it was last used, in milliseconds; written by those who hold use
	ctx     context.Context // ends when the store is to be barred, so that a long reader ends
	end     func()          // ends ctx
}

func newRestingStores() restingStores {
	return restingStores{barred: map[string]bool{}, closing: map[string]bool{}, all: map[string]*restingStore{}}
}

// open allows stores to be read.
func (r *restingStores) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = true
}

// read calls see with the store of a crawl, which it opens if need be. The context of see ends when the store is to be
// barred.
func (r *restingStores) read(ctx context.Context, account, id, dir string,
	see func(context.Context, *state.Store) error) error {
	one, err := r.get(account, id)
	if err != nil {
		return err
	}
	one.use.RLock()
	defer func() { one.use.RUnlock() }()
	for one.store == nil && !one.barred {
		one.use.RUnlock()
		err := r.openStore(one, dir)
		one.use.RLock()
		if err != nil {
			return err
		}
	}
	if one.barred {
		return crawl.ErrNotRunning
	}
	one.last.Store(time.Now().UnixMilli())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(one.ctx, cancel)()
	return see(ctx, one.store)
}

func (r *restingStores) get(account, id string) (*restingStore, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.opened || r.barred[id] || r.closing[id] {
		return nil, crawl.ErrNotRunning
	}
	if r.all[id] == nil {
		one := &restingStore{account: account}
		one.ctx, one.end = context.WithCancel(context.Background())
		r.all[id] = one
	}
	return r.all[id], nil
}

// openStore opens a store, unless it is open or barred. If too many are open, those that are not being read are closed.
func (r *restingStores) openStore(one *restingStore, dir string) error {
	one.use.Lock()
	defer one.use.Unlock()
	if one.store != nil || one.barred {
		return nil
	}
	if err := r.makeRoom(one); err != nil {
		return err
	}
	store, err := state.Open(dir, state.Options{Mode: state.ReadOnly, GCInterval: state.Off})
	if err == nil {
		one.store = store
		one.last.Store(time.Now().UnixMilli())
	}
	return err
}

// makeRoom closes stores that are not being read, until there is room for one that its caller opens. An account may
// read as many stores as it leaves for others.
func (r *restingStores) makeRoom(one *restingStore) error {
	busy, own := 0, 0 // other stores that are being read, opened or closed, and those of the account
	idle := r.lock(func(other *restingStore) bool { return other.store != nil }, func(other *restingStore) {
		if other == one {
			return
		}
		busy++
		if other.account == one.account {
			own++
		}
	})
	if own >= mostRead-busy {
		unlockAll(idle)
		return &Error{Code: ErrUnavailable,
			Detail: "the pages of too many crawls that do not run are being read: try again"}
	}
	slices.SortFunc(idle, func(a, b *restingStore) int { return cmp.Compare(a.last.Load(), b.last.Load()) })
	closing := min(len(idle), max(0, busy+1+len(idle)-mostResting))
	unlockAll(idle[closing:])
	closeAll(idle[:closing])
	return nil
}

// lock locks the stores that are not used and that want selects, and tells busy of those that are used.
func (r *restingStores) lock(want func(*restingStore) bool, busy func(*restingStore)) (locked []*restingStore) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		switch {
		case !one.use.TryLock():
			busy(one)
		case want(one):
			locked = append(locked, one)
		default:
			one.use.Unlock()
		}
	}
	return locked
}

func unlockAll(locked []*restingStore) {
	for _, one := range locked {
		one.use.Unlock()
	}
}

// closeAll closes and unlocks stores. The caller does not hold the lock of the restingStores, which the dispatcher
// needs: closing a store can take long.
func closeAll(locked []*restingStore) {
	for _, one := range locked {
		_ = one.closeLocked() // what it recorded was durable before it was opened
	}
	unlockAll(locked)
}

func (o *restingStore) closeLocked() error {
	if o.store == nil {
		return nil
	}
	err := o.store.Close()
	o.store = nil
	return err
}

// sweep closes stores that were not read for a while.
func (r *restingStores) sweep(now time.Time) {
	closeAll(r.lock(func(one *restingStore) bool {
		return one.store != nil && now.UnixMilli()-one.last.Load() >= restingFor.Milliseconds()
	}, func(*restingStore) {}))
}

// bar refuses readers of the store of a crawl until allow, and lets those that read it end. It reports whether the
// store is closed. Otherwise a job closes it when its readers have ended, and calls then: bar is to be called again.
func (r *restingStores) bar(id string, jobs *sync.WaitGroup, then func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.barred[id] = true
	if r.closing[id] {
		return false
	}
	one := r.all[id]
	if one == nil {
		return true
	}
	delete(r.all, id)
	r.closing[id] = true
	jobs.Go(func() {
		_ = one.close() // as in closeAll
		r.mu.Lock()
		delete(r.closing, id)
		r.mu.Unlock()
		then()
	})
	return false
}

// close lets readers end, and closes the store for good.
func (o *restingStore) close() error {
	o.end()
	o.use.Lock()
	defer o.use.Unlock()
	o.barred = true
	return o.closeLocked()
}

// allow allows the store of a crawl to be read again.
func (r *restingStores) allow(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.barred, id)
}

// close closes all stores for good.
func (r *restingStores) close() error {
	r.mu.Lock()
	r.opened = false
	all := slices.Collect(maps.Values(r.all))
	clear(r.all)
	r.mu.Unlock()
	var errs []error
	for _, one := range all {
		errs = append(errs, one.close())
	}
	return errors.Join(errs...)
}
