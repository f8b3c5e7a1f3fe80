package dedup

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// A BlobWriter keeps named blobs for the next run. What it kept last time can be kept again without being written.
type BlobWriter interface {
	Put(name string, version uint32, write func(io.Writer) error) error
	Keep(name string) bool
}

const (
	filterActive  = "filter-active"
	filterSealed  = "filter-sealed-" // and a number
	filterPacking = 1                // version of the form of a pack
)

// IsPack reports whether a blob's name is one that Save gave.
func IsPack(name string) bool {
	return name == filterActive || strings.HasPrefix(name, filterSealed)
}

// Packs write the filters of all partitions into a few blobs and read them again. Layers that never change are written
// once, in a pack with all others that became so since the last time; the others are in one pack that is written each
// time. Its methods are not safe for concurrent use; they lock the filters themselves.
type Packs struct {
	tag   uint64 // names the hash function of the keys
	owner func(p uint8) (*Filters, sync.Locker)

	version int64 // of the filters that the packs were made from
	packs   []pack
}

// A pack is a blob with layers that never change: each partition's from one number up to another.
type pack struct {
	name   string
	layers [Partitions]uint16 // by partition: how many layers this pack and those before it hold
}

// NewPacks returns Packs for filters of which owner says where each is, and which mutex guards it.
func NewPacks(tag uint64, owner func(p uint8) (*Filters, sync.Locker)) *Packs {
	return &Packs{tag: tag, owner: owner}
}

// Forget makes the next Save write all layers.
func (ps *Packs) Forget() { ps.packs = nil }

// Save writes the filters with all keys that were added before the call, and perhaps a few more. If version is not the
// one of the last call, the filters may have other layers than the packs, and all layers are written.
func (ps *Packs) Save(w BlobWriter, version int64) error {
	if version != ps.version {
		ps.packs, ps.version = nil, version
	}
	kept := 0
	for kept < len(ps.packs) && w.Keep(ps.packs[kept].name) {
		kept++
	}
	ps.packs = ps.packs[:kept]
	var have [Partitions]uint16
	if kept > 0 {
		have = ps.packs[kept-1].layers
	}
	now, full := ps.sealedLayers()
	if full > 0 && now != have {
		next := pack{name: fmt.Sprintf("%s%06d", filterSealed, kept), layers: now}
		err := w.Put(next.name, filterPacking, func(w io.Writer) error { return ps.write(w, have, &now) })
		if err != nil {
			return err
		}
		ps.packs = append(ps.packs, next)
		have = now
	}
	return w.Put(filterActive, filterPacking, func(w io.Writer) error { return ps.write(w, have, nil) })
}

// sealedLayers counts the layers that never change, by partition and in all.
func (ps *Packs) sealedLayers() (layers [Partitions]uint16, all int) {
	for p := range layers {
		filters, mu := ps.owner(uint8(p))
		mu.Lock()
		layers[p] = uint16(max(0, filters.layers(uint8(p))-1))
		mu.Unlock()
		all += int(layers[p])
	}
	return layers, all
}

// write writes the layers of each partition from number from on, up to number to, or to the last if to is nil. Before
// each layer stand its partition's number and its length.
func (ps *Packs) write(w io.Writer, from [Partitions]uint16, to *[Partitions]uint16) error {
	for p := range Partitions {
		if to != nil && to[p] <= from[p] {
			continue
		}
		filters, mu := ps.owner(uint8(p))
		mu.Lock()
		layers := filters.snapshot(uint8(p), ps.tag, int(from[p]))
		mu.Unlock()
		if to != nil {
			layers = layers[:min(len(layers), int(to[p]-from[p]))]
		}
		for _, l := range layers {
			head := binary.BigEndian.AppendUint64([]byte{byte(p)}, uint64(l.Size()))
			if _, err := w.Write(head); err != nil {
				return err
			}
			if _, err := l.WriteTo(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restore reads what Save wrote: all blobs of which IsPack is true. It is called before any key is added. After an
// error the filters are empty.
func (ps *Packs) Restore(names []string, read func(name string, fn func(io.Reader) error) error) error {
	err := ps.restore(names, read)
	if err != nil {
		ps.packs = nil
		for p := range Partitions {
			filters, _ := ps.owner(uint8(p))
			filters.Replace(uint8(p), nil)
		}
	}
	return err
}

func (ps *Packs) restore(names []string, read func(name string, fn func(io.Reader) error) error) error {
	sealed := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == filterActive })
	slices.Sort(sealed)
	for _, name := range append(sealed, filterActive) {
		active := name == filterActive
		if err := read(name, func(r io.Reader) error { return ps.read(r, active) }); err != nil {
			return fmt.Errorf("restore filters from %s: %w", name, err)
		}
		if active {
			continue
		}
		read := pack{name: name}
		for p := range read.layers {
			filters, _ := ps.owner(uint8(p))
			read.layers[p] = uint16(filters.layers(uint8(p)))
		}
		ps.packs = append(ps.packs, read)
	}
	return nil
}

// read reads a pack. In the pack of active layers the last one of every partition is one that was not full, which shows
// that none is missing.
func (ps *Packs) read(r io.Reader, active bool) error {
	var ended [Partitions]bool
	for {
		var head [9]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if err == io.EOF {
				break
			}
			return err
		}
		p := head[0]
		var blob bytes.Buffer
		size := binary.BigEndian.Uint64(head[1:])
		if size > 1<<40 {
			return &LayerError{Reason: "impossible size"}
		}
		if _, err := io.CopyN(&blob, r, int64(size)); err != nil {
			return err
		}
		filters, _ := ps.owner(p)
		f := filters.make(p)
		if ended[p] {
			return &LayerError{Layer: f.Layers(), Reason: "one too many"}
		}
		sealed := !active || IsSealed(blob.Bytes())
		ended[p] = !sealed
		if err := f.AddLayer(blob.Bytes(), ps.tag, sealed); err != nil {
			return err
		}
	}
	if !active {
		return nil
	}
	for p := range ended {
		filters, _ := ps.owner(uint8(p))
		if n := filters.layers(uint8(p)); filters.filters[p] != nil && !ended[p] {
			return &LayerError{Layer: n, Reason: "missing"}
		}
	}
	return nil
}
