package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"
	"syscall"
	"time"
)

const sectorSize = 512

var errMachine = errors.New("the machine is down")

// memFS is a file system in memory that knows what is durable and what is not.
// It fails on demand, and what it holds after a power loss can be drawn from
// all that the rules of the FS interface allow.
type memFS struct {
	mu       sync.Mutex
	files    map[string]*memNode // as a running program sees them
	durable  map[string]*memNode // as of the last SyncDir
	dirOps   []dirOp             // since then
	steps    int                 // calls so far that a fault can hit
	fault    func(step int, op, name string) fault
	down     bool
	removed  bool          // something was renamed or removed
	syncTime time.Duration // what an fsync takes
	capacity int           // bytes that all files together may have; 0 is no limit
}

// fault is what happens to one call.
type fault struct {
	err   error // returned by the call
	down  bool  // the process is dead from this call on
	short bool  // a write does half of its work
}

type dirOp struct {
	set    string // name that now has node
	node   *memNode
	remove string // name that is gone
}

// memNode is a file. pending are the changes since data was last durable, in
// order; a failed Sync forgets them, as Linux does, though data still shows them.
type memNode struct {
	data    []byte
	stable  []byte
	pending []change
	shared  bool // data and stable belong to another file
}

type change struct {
	off  int64
	data []byte // nil for a truncation to off
}

func newMemFS() *memFS {
	return &memFS{files: map[string]*memNode{}, durable: map[string]*memNode{}}
}

// step asks for a fault. It is called with mu held.
func (fs *memFS) step(op, name string) fault {
	if fs.down {
		return fault{err: errMachine, down: true}
	}
	fs.steps++
	var f fault
	if fs.fault != nil {
		f = fs.fault(fs.steps, op, name)
	}
	if f.down {
		fs.down, f.err = true, errMachine
	}
	return f
}

// free tells how many more bytes the disk has. It is called with mu held.
func (fs *memFS) free() int64 {
	if fs.capacity == 0 {
		return 1 << 40
	}
	free := int64(fs.capacity)
	for _, n := range fs.files {
		free -= int64(len(n.data))
	}
	return max(free, 0)
}

// failAt makes call n, counted from now, fail in the given way.
func (fs *memFS) failAt(n int, f fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.steps = 0
	fs.fault = func(step int, _, _ string) fault {
		if step == n {
			return f
		}
		return fault{}
	}
}

func (fs *memFS) stepCount() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.steps
}

func (fs *memFS) MkdirAll(string) error { return nil }

func (fs *memFS) ReadDir(string) ([]string, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.step("readdir", ""); f.err != nil {
		return nil, f.err
	}
	var names []string
	for name := range fs.files {
		names = append(names, name[len("log/"):])
	}
	return names, nil
}

func (fs *memFS) Create(name string) (File, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.step("create", name); f.err != nil {
		return nil, f.err
	}
	n := &memNode{}
	fs.files[name] = n
	fs.dirOps = append(fs.dirOps, dirOp{set: name, node: n})
	return &memFile{fs, n, name, true}, nil
}

func (fs *memFS) Open(name string, write bool) (File, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.step("open", name); f.err != nil {
		return nil, f.err
	}
	n, ok := fs.files[name]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", name, os.ErrNotExist)
	}
	return &memFile{fs, n, name, write}, nil
}

func (fs *memFS) Rename(from, to string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.step("rename", from); f.err != nil {
		return f.err
	}
	fs.files[to] = fs.files[from]
	delete(fs.files, from)
	fs.removed = true
	fs.dirOps = append(fs.dirOps, dirOp{set: to, node: fs.files[to], remove: from})
	return nil
}

func (fs *memFS) Remove(name string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.step("remove", name); f.err != nil {
		return f.err
	}
	delete(fs.files, name)
	fs.removed = true
	fs.dirOps = append(fs.dirOps, dirOp{remove: name})
	return nil
}

func (fs *memFS) SyncDir(string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.step("syncdir", ""); f.err != nil {
		return f.err
	}
	fs.durable, fs.dirOps = maps.Clone(fs.files), nil
	return nil
}

type memFile struct {
	fs    *memFS
	n     *memNode
	name  string
	write bool
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if x := f.fs.step("read", f.name); x.err != nil {
		return 0, x.err
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	x := f.fs.step("write", f.name)
	switch {
	case !f.write:
		return 0, syscall.EBADF
	case x.short:
		b = b[:len(b)/2]
	case x.err != nil && !x.down:
		return 0, x.err
	}
	if most := int64(len(f.n.data)) + f.fs.free() - off; most < int64(len(b)) {
		b, x.err = b[:max(most, 0)], syscall.ENOSPC
	}
	// A process that is killed in a write has written some of it.
	if len(b) > 0 {
		f.n.change(change{off, bytes.Clone(b)})
	}
	return len(b), x.err
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if x := f.fs.step("truncate", f.name); x.err != nil {
		return x.err
	}
	f.n.change(change{off: size})
	return nil
}

func (f *memFile) Preallocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if x := f.fs.step("preallocate", f.name); x.err != nil {
		return x.err
	}
	if size-int64(len(f.n.data)) > f.fs.free() {
		return syscall.ENOSPC
	}
	f.n.change(change{off: size})
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	x := f.fs.step("sync", f.name)
	took := f.fs.syncTime
	if x.err != nil && !x.down {
		f.n.pending = nil
	}
	f.fs.mu.Unlock()
	if x.err != nil {
		return x.err
	}
	time.Sleep(took)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.down {
		return errMachine
	}
	for _, c := range f.n.pending {
		f.n.stable = c.apply(f.n.stable)
	}
	f.n.pending = nil
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	x := f.fs.step("size", f.name)
	return int64(len(f.n.data)), x.err
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.fs.step("close", f.name).err
}

func (n *memNode) change(c change) {
	if n.shared {
		n.data, n.stable, n.shared = bytes.Clone(n.data), bytes.Clone(n.stable), false
	}
	n.data = c.apply(n.data)
	n.pending = append(n.pending, c)
}

// apply returns b with the change made; b itself may be changed.
func (c change) apply(b []byte) []byte {
	end := int(c.off) + len(c.data)
	if len(b) < end {
		b = append(b, make([]byte, end-len(b))...)
	}
	if c.data == nil {
		return b[:c.off:c.off]
	}
	copy(b[c.off:], c.data)
	return b
}
