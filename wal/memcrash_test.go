package wal

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
)

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
			nodes[n] = &memNode{data: bytes.Clone(n.data), stable: bytes.Clone(n.stable),
				pending: slices.Clone(n.pending)}
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
