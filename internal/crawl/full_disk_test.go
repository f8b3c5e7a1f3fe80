package crawl

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/wal"
)

// fullDisk has room for so many bytes of log, and then for none.
type fullDisk struct {
	wal.FS
	left atomic.Int64
}

func (d *fullDisk) Create(name string) (wal.File, error) { return d.wrap(d.FS.Create(name)) }

func (d *fullDisk) Open(name string, write bool) (wal.File, error) {
	return d.wrap(d.FS.Open(name, write))
}

func (d *fullDisk) wrap(f wal.File, err error) (wal.File, error) {
	return &fullFile{File: f, disk: d}, err
}

type fullFile struct {
	wal.File
	disk *fullDisk
}

func (f *fullFile) WriteAt(p []byte, at int64) (int, error) {
	if f.disk.left.Add(-int64(len(p))) < 0 {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, at)
}

// A crawl whose disk fills up ends with an error that says so, and is resumed to the result of one that was never
// stopped.
func TestFullDisk(t *testing.T) { inBubble(t, testFullDisk) }

func testFullDisk(t *testing.T) {
	web := newMemoryWeb(t, testweb.Config{Pages: 300})
	s := quick(web.Server)
	dir := newDir(t)
	disk := &fullDisk{FS: wal.OS()}
	disk.left.Store(100 << 10)
	o := web.options(s, dir, web.StartURLs()[0])
	o.LogFS = disk
	if _, err := runAlone(t.Context(), o); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the crawl ended with %v", err)
	}
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	o = web.options(s, dir, web.StartURLs()[0])
	o.Plan = plan
	rep, err := runAlone(t.Context(), o)
	if err != nil || rep.Status != page.Complete {
		t.Fatalf("resumed: %+v, %v", rep, err)
	}
	foundExactly(t, web.Server, testweb.Crawl{}, readLines(t, dir))
}
