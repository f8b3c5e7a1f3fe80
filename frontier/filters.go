package frontier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/frontier/dedup"
)

// A FilterWriter keeps named blobs for the next run. What it kept last time can
// be kept again without being written.
type FilterWriter interface {
	Put(name string, version uint32, write func(io.Writer) error) error
	Keep(name string) bool
}

const (
	filterActive  = "filter-active"
	filterSealed  = "filter-sealed-" // and a number
	filterPacking = 1                // version of the form of a pack
)

// A filterPack is a blob with layers that never change: each partition's from
// one number up to another.
type filterPack struct {
	name   string
	layers [partitions]uint16 // by partition: how many layers this pack and those before it hold
}

// IsFilter reports whether a blob's name is one that SaveFilters gave.
func IsFilter(name string) bool {
	return name == filterActive || strings.HasPrefix(name, filterSealed)
}

// SaveFilters writes what is needed to know all URLs again that were recorded
// before the call: it may be a few more. Layers that are full are written once,
// in a pack with all others that have become so since the last time. It must not
// be called twice at once.
//
// The filter of a partition that is closed is not known. Then nothing is saved, and
// the filters are made anew from the store. A partition that was closed and opened
// again has a filter with other layers, so that no earlier pack is of use.
func (f *Frontier) SaveFilters(w FilterWriter) error {
	closings := f.closings.Load()
	if closings != f.packed {
		f.packs, f.packed = nil, closings
	}
	if f.notOpen.Load() > 0 {
		f.packs = nil
		return nil
	}
	err := f.saveFilters(w)
	if err == nil && f.closings.Load() != closings {
		err = errors.New("save filters: a partition was closed meanwhile")
	}
	return err
}

func (f *Frontier) saveFilters(w FilterWriter) error {
	kept := 0
	for kept < len(f.packs) && w.Keep(f.packs[kept].name) {
		kept++
	}
	f.packs = f.packs[:kept]
	var have [partitions]uint16
	if kept > 0 {
		have = f.packs[kept-1].layers
	}
	now, full := f.sealedLayers()
	if full > 0 && now != have {
		pack := filterPack{name: fmt.Sprintf("%s%06d", filterSealed, kept), layers: now}
		err := w.Put(pack.name, filterPacking, func(w io.Writer) error {
			return f.packFilters(w, have, &now)
		})
		if err != nil {
			return fmt.Errorf("save filters: %w", err)
		}
		f.packs = append(f.packs, pack)
		have = now
	}
	err := w.Put(filterActive, filterPacking, func(w io.Writer) error { return f.packFilters(w, have, nil) })
	if err != nil {
		return fmt.Errorf("save filters: %w", err)
	}
	return nil
}

// sealedLayers counts the layers that never change, by partition and in all.
func (f *Frontier) sealedLayers() (layers [partitions]uint16, all int) {
	for p := range layers {
		s := f.shards[f.owners[p]]
		s.lock()
		if fl := s.filters[p]; fl != nil {
			layers[p] = uint16(max(0, fl.Layers()-1))
		}
		s.mu.Unlock()
		all += int(layers[p])
	}
	return layers, all
}

// packFilters writes layers, each after its partition's number and its length:
// from a number on, and up to another or to the last.
func (f *Frontier) packFilters(w io.Writer, from [partitions]uint16, to *[partitions]uint16) error {
	for p := range partitions {
		s := f.shards[f.owners[p]]
		s.lock()
		var layers []dedup.Layer
		if fl := s.filters[p]; fl != nil {
			if to == nil {
				layers = fl.Snapshot(f.o.Seed, int(from[p]))
			} else if to[p] > from[p] {
				layers = fl.Snapshot(f.o.Seed, int(from[p]))
				layers = layers[:min(len(layers), int(to[p]-from[p]))]
			}
		}
		s.mu.Unlock()
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

// RestoreFilters reads what SaveFilters wrote: all blobs of which IsFilter is
// true. It is called before anything is added. After an error the frontier knows
// no URL, and must be told of all of them with Remember.
func (f *Frontier) RestoreFilters(names []string, read func(name string, fn func(io.Reader) error) error) error {
	err := f.restoreFilters(names, read)
	if err != nil {
		f.packs = nil
		for _, s := range f.shards {
			clear(s.filters[:])
		}
	}
	return err
}

func (f *Frontier) restoreFilters(names []string, read func(name string, fn func(io.Reader) error) error) error {
	sealed := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == filterActive })
	slices.Sort(sealed)
	for _, name := range append(sealed, filterActive) {
		active := name == filterActive
		if err := read(name, func(r io.Reader) error { return f.unpackFilters(r, active) }); err != nil {
			return fmt.Errorf("restore filters from %s: %w", name, err)
		}
		if !active {
			pack := filterPack{name: name}
			for p := range pack.layers {
				if fl := f.shards[f.owners[p]].filters[p]; fl != nil {
					pack.layers[p] = uint16(fl.Layers())
				}
			}
			f.packs = append(f.packs, pack)
		}
	}
	return nil
}

// unpackFilters reads a pack. In the pack of active layers the last one of every
// partition is one that was not full, which shows that none is missing.
func (f *Frontier) unpackFilters(r io.Reader, active bool) error {
	var ended [partitions]bool
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
			return &dedup.LayerError{Reason: "impossible size"}
		}
		if _, err := io.CopyN(&blob, r, int64(size)); err != nil {
			return err
		}
		if err := f.addLayer(p, blob.Bytes(), active, &ended[p]); err != nil {
			return err
		}
	}
	if !active {
		return nil
	}
	for p := range ended {
		if fl := f.shards[f.owners[p]].filters[p]; fl != nil && !ended[p] {
			return &dedup.LayerError{Layer: fl.Layers(), Reason: "missing"}
		}
	}
	return nil
}

// addLayer puts the next layer onto a partition's filter.
func (f *Frontier) addLayer(p uint8, blob []byte, active bool, ended *bool) error {
	filters := &f.shards[f.owners[p]].filters
	if filters[p] == nil {
		filters[p] = dedup.NewFilter(f.o.FilterCapacity/partitions, f.o.FilterFPRate)
	}
	fl := filters[p]
	if *ended {
		return &dedup.LayerError{Layer: fl.Layers(), Reason: "one too many"}
	}
	sealed := !active || dedup.IsSealed(blob)
	*ended = !sealed
	return fl.AddLayer(blob, f.o.Seed, sealed)
}
