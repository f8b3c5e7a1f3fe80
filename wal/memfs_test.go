package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
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
	shared  bool // data and stable belong to somebody else
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

// room tells how many more bytes the disk has. It is called with mu held.
func (fs *memFS) room() int64 {
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
	if most := int64(len(f.n.data)) + f.fs.room() - off; most < int64(len(b)) {
		b, x.err = b[:max(most, 0)], syscall.ENOSPC
	}
	// A process that dies in a write has written some of it.
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
	if size-int64(len(f.n.data)) > f.fs.room() {
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

// sectors splits a write into what a disk writes in one piece.
func (c change) sectors() []change {
	if c.data == nil {
		return []change{c}
	}
	var out []change
	for off, data := c.off, c.data; len(data) > 0; {
		n := min(sectorSize-int(off%sectorSize), len(data))
		out = append(out, change{off, data[:n]})
		off, data = off+int64(n), data[n:]
	}
	return out
}

// kill ends the process but not the machine: all that was written is there.
func (fs *memFS) kill() *memFS {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.down = true
	return &memFS{files: fs.files, durable: fs.durable, dirOps: fs.dirOps}
}

// loss says how much of what was not durable survives a power loss.
type loss int

const (
	loseAll loss = iota
	loseNone
	loseSome   // each sector and each directory change by the toss of a coin
	loseOne    // all but one sector
	loseSuffix // all changes up to one, and that one in part
)

// crash is a power loss. It returns the file system found afterwards.
func (fs *memFS) crash(rng *rand.Rand, how loss) *memFS {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.down = true
	survived := map[*memNode]*memNode{}
	survivor := func(n *memNode) *memNode {
		if survived[n] == nil {
			data := bytes.Clone(n.stable)
			for _, c := range surviving(rng, how, n.pending) {
				data = c.apply(data)
			}
			survived[n] = &memNode{data: data, stable: bytes.Clone(data)}
		}
		return survived[n]
	}
	after := newMemFS()
	for _, name := range slices.Sorted(maps.Keys(fs.durable)) {
		after.files[name] = survivor(fs.durable[name])
	}
	for _, op := range fs.dirOps {
		if how == loseAll || how != loseNone && rng.IntN(2) == 0 {
			continue
		}
		if op.remove != "" {
			delete(after.files, op.remove)
		}
		if op.set != "" {
			after.files[op.set] = survivor(op.node)
		}
	}
	after.durable = maps.Clone(after.files)
	return after
}

func surviving(rng *rand.Rand, how loss, pending []change) []change {
	var all []change
	for _, c := range pending {
		all = append(all, c.sectors()...)
	}
	if len(all) == 0 {
		return nil
	}
	switch how {
	case loseAll:
		return nil
	case loseOne:
		i := rng.IntN(len(all))
		return slices.Delete(all, i, i+1)
	case loseSuffix:
		all = all[:rng.IntN(len(all))+1]
		last := &all[len(all)-1]
		if n := len(last.data); n > 0 {
			last.data = last.data[:rng.IntN(n)+1]
		}
	case loseSome:
		return slices.DeleteFunc(all, func(change) bool { return rng.IntN(2) == 0 })
	}
	return all
}

// touched reports whether anything was written since memFSOf.
func (fs *memFS) touched() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, n := range fs.files {
		if !n.shared {
			return true
		}
	}
	return !maps.Equal(fs.files, fs.durable) || fs.removed
}

// snapshot returns a copy of all files, as a program sees them.
func (fs *memFS) snapshot() map[string][]byte {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	out := map[string][]byte{}
	for name, n := range fs.files {
		out[name] = bytes.Clone(n.data)
	}
	return out
}

// memFSOf holds files as after a clean start of the machine. It does not change
// them, but neither may the caller while it is in use.
func memFSOf(files map[string][]byte) *memFS {
	fs := newMemFS()
	for name, data := range files {
		fs.files[name] = &memNode{data: data, stable: data, shared: true}
	}
	fs.durable = maps.Clone(fs.files)
	return fs
}

// clone is the same machine, to be tried again. It must not be in use.
func (fs *memFS) clone() *memFS {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	nodes := map[*memNode]*memNode{}
	node := func(n *memNode) *memNode {
		if n != nil && nodes[n] == nil {
			nodes[n] = &memNode{data: bytes.Clone(n.data), stable: bytes.Clone(n.stable), pending: slices.Clone(n.pending)}
		}
		return nodes[n]
	}
	c := newMemFS()
	for name, n := range fs.files {
		c.files[name] = node(n)
	}
	for name, n := range fs.durable {
		c.durable[name] = node(n)
	}
	for _, op := range fs.dirOps {
		op.node = node(op.node)
		c.dirOps = append(c.dirOps, op)
	}
	return c
}
