package crawl

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/wal"
)

// slowDisk is a disk that takes so many bytes a second and no more.
type slowDisk struct {
	wal.FS
	rate atomic.Int64 // bytes a second; 0 is as fast as it goes
}

func (d *slowDisk) Create(name string) (wal.File, error) { return d.wrap(d.FS.Create(name)) }

func (d *slowDisk) Open(name string, write bool) (wal.File, error) {
	return d.wrap(d.FS.Open(name, write))
}

func (d *slowDisk) wrap(f wal.File, err error) (wal.File, error) {
	return &slowFile{File: f, disk: d}, err
}

type slowFile struct {
	wal.File
	disk  *slowDisk
	dirty atomic.Int64
}

func (f *slowFile) WriteAt(p []byte, at int64) (int, error) {
	f.dirty.Add(int64(len(p)))
	return f.File.WriteAt(p, at)
}

func (f *slowFile) Sync() error {
	if rate := f.disk.rate.Load(); rate > 0 {
		<-time.After(time.Duration(f.dirty.Load()) * time.Second / time.Duration(rate))
	}
	f.dirty.Store(0)
	return f.File.Sync()
}

// With a disk that cannot take what the workers make, the workers in use fall until commits are near their target; when
// the disk recovers, so do the workers.
func TestGovernorOnASlowDisk(t *testing.T) {
	long.Test(t)
	inBubble(t, testGovernorOnASlowDisk)
}

func testGovernorOnASlowDisk(t *testing.T) {
	web := newMemoryWeb(t, testweb.Config{Hosts: 20, Pages: 5000, CrossHost: 0.2,
		Faults: testweb.OnAll(testweb.Slow{Delay: 20 * time.Millisecond})})
	s := quick(web.Server)
	s.Scope = "any"
	s.ThrottleThresholdMS, s.UnthrottleThresholdMS = 200, 100
	disk := &slowDisk{FS: wal.OS()}
	disk.rate.Store(400 << 10)
	stop := make(chan struct{})
	running := make(chan *monitor.Monitor, 1)
	o := web.options(s, newDir(t), web.StartURLs()[0])
	o.LogFS, o.Started = disk, func(m *monitor.Monitor) { running <- m }
	ended := make(chan error, 1)
	go func() {
		_, err := runUntil(t.Context(), o, stop)
		ended <- err
	}()
	m := <-running
	// until looks every tenth of a second, in the bubble's time, until the workers are as wanted.
	until := func(what string, ok func(limit int, latency time.Duration) bool) {
		t.Helper()
		var limit, used int
		var latency time.Duration
		for range 400 {
			live := m.Live()
			limit, used, latency = live.Workers.Limit, live.Workers.InUse,
				time.Duration(live.CommitMS*float64(time.Millisecond))
			if ok(limit, latency) {
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case err := <-ended:
				t.Fatalf("%s: the crawl ended: %v", what, err)
			}
		}
		t.Errorf("%s: still %d workers allowed, %d at work, %v a commit", what, limit, used, latency)
	}
	until("a slow disk shrinks the workers", func(limit int, _ time.Duration) bool { return limit <= s.MaxWorkers/2 })
	until("and commits come near their target", func(limit int, latency time.Duration) bool {
		return limit < s.MaxWorkers && latency > 0 && latency <= 300*time.Millisecond
	})
	disk.rate.Store(0)
	until("a disk that recovered brings them back", func(limit int,
		_ time.Duration) bool {
		return limit == s.MaxWorkers
	})
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
