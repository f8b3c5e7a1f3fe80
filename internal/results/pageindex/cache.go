package pageindex

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Cache keeps the indexes that were used last open, since opening one reads all of it. The zero value is ready. It is
// safe for concurrent use.
type Cache struct {
	// Make, when not nil, writes the files of a directory again, because its index is missing, damaged or stale. It
	// returns ErrBusy if that is not possible now.
	Make func(ctx context.Context, dir string) error

	making sync.Mutex             // held while Make runs
	failed map[string]fileVersion // guarded by making; the files for which Make failed and is not called again

	mu  sync.Mutex
	all []*cached // guarded by mu; the one that was used last is first
}

// cached is an index with the number of its users. It is closed when it has left the list and has no users.
type cached struct {
	*Index
	dir     string
	version fileVersion
	users   int       // guarded by Cache.mu; the list counts as one user
	used    time.Time // guarded by Cache.mu
}

// fileVersion tells one sitemap.jsonl from the next.
type fileVersion struct {
	size int64
	at   time.Time
}

const maxCached = 8

// canKeep says whether a file can be replaced and removed while it is open. On Windows it cannot, so no index is kept
// there.
const canKeep = runtime.GOOS != "windows"

// ErrBusy means that the files of a directory cannot be written now, because a crawl uses it.
var ErrBusy = errors.New("a crawl uses the directory")

// Use calls fn with the index of a directory. The error is fs.ErrNotExist if there is no sitemap.jsonl, or no index and
// it cannot be made.
func (c *Cache) Use(ctx context.Context, dir string, fn func(*Index) error) error {
	version, err := versionOf(dir)
	if err != nil {
		return err
	}
	one := c.find(dir, version)
	if one == nil {
		opened, err := Open(dir)
		if isMissing(err) {
			opened, version, err = c.make(ctx, dir)
		}
		if err != nil {
			return err
		}
		one = &cached{Index: opened, dir: dir, version: version, users: 2, used: time.Now()}
		c.keep(one)
	}
	return errors.Join(fn(one.Index), c.release(one))
}

func versionOf(dir string) (fileVersion, error) {
	info, err := os.Stat(filepath.Join(dir, "sitemap.jsonl"))
	if err != nil {
		return fileVersion{}, err
	}
	return fileVersion{info.Size(), info.ModTime()}, nil
}

// make opens an index that was missing. If no other caller has made it meanwhile, it calls Make. It makes one index at
// a time, and calls Make once for each sitemap.jsonl, unless Make was cancelled or busy.
func (c *Cache) make(ctx context.Context, dir string) (*Index, fileVersion, error) {
	c.making.Lock()
	defer c.making.Unlock()
	version, err := versionOf(dir)
	if err != nil {
		return nil, version, err
	}
	x, err := Open(dir)
	if isMissing(err) && c.Make != nil && c.failed[dir] != version {
		made := c.Make(ctx, dir)
		if made == nil {
			version, _ = versionOf(dir) // Open fails if there is none
			x, err = Open(dir)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(made, ErrBusy) {
			if c.failed == nil {
				c.failed = map[string]fileVersion{}
			}
			c.failed[dir] = version
		}
	}
	if isMissing(err) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return x, version, err
}

// find returns the open index of a version with one more user, or nil.
func (c *Cache) find(dir string, version fileVersion) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, one := range c.all {
		if one.dir == dir && one.version == version {
			copy(c.all[1:i+1], c.all[:i])
			c.all[0] = one
			one.users, one.used = one.users+1, time.Now()
			return one
		}
	}
	return nil
}

// keep puts an index at the head of the list, and drops those that are too many or of the same directory.
func (c *Cache) keep(one *cached) {
	c.mu.Lock()
	c.all = append([]*cached{one}, c.all...)
	c.mu.Unlock()
	seen := 0
	c.drop(func(other *cached) bool {
		seen++
		return !canKeep || seen > maxCached || other != one && other.dir == one.dir
	})
}

// Sweep closes the indexes that were not used for a time, and those of crawls that were deleted, whose files would stay
// on the disk.
func (c *Cache) Sweep(now time.Time, unused time.Duration) {
	c.drop(func(one *cached) bool {
		version, err := versionOf(one.dir)
		return now.Sub(one.used) > unused || err != nil || version != one.version
	})
}

// drop takes indexes off the list.
func (c *Cache) drop(which func(*cached) bool) {
	c.mu.Lock()
	var dropped []*cached
	c.all = slices.DeleteFunc(c.all, func(one *cached) bool {
		if !which(one) {
			return false
		}
		dropped = append(dropped, one)
		return true
	})
	c.mu.Unlock()
	for _, one := range dropped {
		_ = c.release(one) // it was only read
	}
}

func (c *Cache) release(one *cached) error {
	c.mu.Lock()
	one.users--
	last := one.users == 0
	c.mu.Unlock()
	if last {
		return one.Close()
	}
	return nil
}

// Close closes the indexes that are not in use. The others are closed by their last user.
func (c *Cache) Close() { c.drop(func(*cached) bool { return true }) }
