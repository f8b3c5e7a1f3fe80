package web

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/datadir"
	"github.com/mapwright/mapwright/internal/pageindex"
)

// indexes keeps the page indexes that were used last open, since opening one reads all of it.
type indexes struct {
	mu  sync.Mutex
	all []*openIndex // guarded by mu; the one that was used last is first
}

// openIndex is an index with the number of its users. It is closed when it has left the list and has no users.
type openIndex struct {
	*pageindex.Index
	dir     datadir.Dir
	version fileVersion
	users   int // guarded by indexes.mu, with one for the list
}

// fileVersion tells one sitemap.jsonl from the next.
type fileVersion struct {
	size int64
	at   time.Time
}

const maxIndexes = 8

// use calls fn with the index of a crawl. The error is fs.ErrNotExist if the crawl has written no pages yet.
func (x *indexes) use(ctx context.Context, dir datadir.Dir, fn func(*pageindex.Index) error) error {
	info, err := os.Stat(dir.JSONL())
	if err != nil {
		return err
	}
	version := fileVersion{info.Size(), info.ModTime()}
	one := x.find(dir, version)
	if one == nil {
		opened, err := pageindex.Open(ctx, string(dir))
		if err != nil {
			return err
		}
		one = &openIndex{Index: opened, dir: dir, version: version, users: 2}
		x.keep(one)
	}
	return errors.Join(fn(one.Index), x.release(one))
}

// find is the open index of a version, with one more user, or nil.
func (x *indexes) find(dir datadir.Dir, version fileVersion) *openIndex {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, one := range x.all {
		if one.dir == dir && one.version == version {
			copy(x.all[1:i+1], x.all[:i])
			x.all[0] = one
			one.users++
			return one
		}
	}
	return nil
}

// keep puts an index at the head of the list, and drops those that are too many or of an older version.
func (x *indexes) keep(one *openIndex) {
	x.mu.Lock()
	var dropped []*openIndex
	kept := []*openIndex{one}
	for _, other := range x.all {
		if other.dir == one.dir || len(kept) == maxIndexes {
			dropped = append(dropped, other)
		} else {
			kept = append(kept, other)
		}
	}
	x.all = kept
	x.mu.Unlock()
	for _, other := range dropped {
		_ = x.release(other) // it was only read
	}
}

func (x *indexes) release(one *openIndex) error {
	x.mu.Lock()
	one.users--
	last := one.users == 0
	x.mu.Unlock()
	if last {
		return one.Close()
	}
	return nil
}

// close closes the indexes that are in the list.
func (x *indexes) close() {
	x.mu.Lock()
	all := x.all
	x.all = nil
	x.mu.Unlock()
	for _, one := range all {
		_ = x.release(one) // it was only read
	}
}
