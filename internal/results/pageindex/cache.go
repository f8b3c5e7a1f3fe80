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
	// returns ErrBusy if that is not possible now. It is called once at a time for a directory; what it may do for
	// several directories at once is its own matter.
	Make func(ctx context.Context, dir string) error

	makers sync.WaitGroup // calls of Make

	mu     sync.Mutex
	all    []*cached              // guarded by mu; the one that was used last is first
	making map[string]*making     // guarded by mu; by directory
	failed map[string]fileVersion // guarded by mu; the files for which Make failed and is not called again
	life   context.Context        // guarded by mu; of all calls of Make; nil before the first
	end    context.CancelFunc     // guarded by mu; ends life
}

// making is a call of Make.
type making struct {
	done chan struct{} // closed at its end
	err  error         // written before
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

// make opens an index that was missing. If no other caller has made it meanwhile, it waits for Make. It calls Make once
// for each sitemap.jsonl, unless Make was ended or busy.
func (c *Cache) make(ctx context.Context, dir string) (*Index, fileVersion, error) {
	version, err := versionOf(dir)
	if err != nil {
		return nil, version, err
	}
	x, err := Open(dir)
	if isMissing(err) && c.Make != nil {
		made, ended := c.await(ctx, dir, version)
		if ended != nil {
			return nil, version, ended
		}
		if made {
			version, _ = versionOf(dir) // Open fails if there is none
			if x, err = Open(dir); err != nil {
				c.fail(dir, version)
			}
		}
	}
	if isMissing(err) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return x, version, err
}

// await waits until Make has written the files of a directory. It goes on when the caller does not wait any more: the
// next one finds them. made is false if it failed.
func (c *Cache) await(ctx context.Context, dir string, version fileVersion) (made bool, err error) {
	c.mu.Lock()
	if c.failed[dir] == version {
		c.mu.Unlock()
		return false, nil
	}
	m := c.making[dir]
	if m == nil {
		if c.life == nil {
			c.life, c.end = context.WithCancel(context.Background())
			c.making, c.failed = map[string]*making{}, map[string]fileVersion{}
		}
		m = &making{done: make(chan struct{})}
		c.making[dir] = m
		life := c.life
		c.makers.Go(func() {
			defer close(m.done)
			m.err = c.Make(life, dir)
			if m.err != nil && !errors.Is(m.err, ErrBusy) && !errors.Is(m.err, context.Canceled) {
				c.fail(dir, version)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.making, dir)
		})
	}
	c.mu.Unlock()
	select {
	case <-m.done:
		return m.err == nil, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// fail notes that the files cannot be made.
func (c *Cache) fail(dir string, version fileVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[dir] = version
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

// Close ends calls of Make, and closes the indexes that are not in use. The others are closed by their last user. It is
// not used any more then.
func (c *Cache) Close() {
	c.mu.Lock()
	if c.end != nil {
		c.end()
	}
	c.mu.Unlock()
	c.makers.Wait()
	c.drop(func(*cached) bool { return true })
}
