package dedup

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/bits-and-blooms/bloom/v3"
)

// A LayerError says why a stored filter layer cannot be used. The filter has
// then to be built anew from the store's keys; it must never start empty.
type LayerError struct {
	Layer  int // the position it was given at
	Reason string
}

func (e *LayerError) Error() string {
	return fmt.Sprintf("restore filter layer %d: %s", e.Layer, e.Reason)
}

// A Layer is one layer of a filter at one moment, ready to be written while the filter
// goes on: a sealed layer never changes, the active one is a copy.
type Layer struct {
	layer layer
	tag   uint64
	index int
	// sealed says that this layer need never be written again.
	sealed bool
}

// IsSealed reports whether a stored layer says that it was sealed.
func IsSealed(blob []byte) bool { return len(blob) > sealedAt && blob[sealedAt] == 1 }

// The stored form of a layer, little-endian except for bloom's own part:
//
//	"MWBF", version byte, hash count byte, sealed byte, zero byte
//	index, tag, capacity, keys: 8 bytes each
//	what bloom writes: m and k, the bit count, the words
//	CRC-32C of all that, 4 bytes
const (
	layerMagic   = "MWBF"
	layerVersion = 1
	layerHeader  = 8 + 4*8
	layerTrailer = 4
	bloomHeader  = 3 * 8
	sealedAt     = 6
)

// Snapshot returns the layers from the given one on. The caller writes them after it has released the lock. A layer
// that was sealed in an earlier snapshot need not be written again. tag names the hash function; it is the crawl's
// seed.
func (f *Filter) Snapshot(tag uint64, from int) []Layer {
	if len(f.layers) == 0 {
		f.grow()
	}
	last := len(f.layers) - 1
	var out []Layer
	for i := from; i < last; i++ {
		out = append(out, Layer{f.layers[i], tag, i, true})
	}
	active := f.layers[last]
	return append(out, Layer{wrapLayer(active.bloom.Copy(), active.cap, active.n), tag, last, false})
}

// Size is the length of the stored form.
func (s Layer) Size() int { return layerHeader + bloomHeader + s.layer.bytes() + layerTrailer }

// WriteTo writes the stored form.
func (s Layer) WriteTo(w io.Writer) (int64, error) {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	buf := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	head := make([]byte, 0, layerHeader)
	head = append(head, layerMagic...)
	head = append(head, layerVersion, hashes, 0, 0)
	if s.sealed {
		head[sealedAt] = 1
	}
	for _, v := range []uint64{uint64(s.index), s.tag, uint64(s.layer.cap), uint64(s.layer.n)} {
		head = binary.LittleEndian.AppendUint64(head, v)
	}
	buf.Write(head) // a bufio.Writer keeps its first error for Flush
	n, err := s.layer.bloom.WriteTo(buf)
	if err == nil {
		err = buf.Flush()
	}
	if err == nil {
		_, err = w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	}
	if err != nil {
		return 0, fmt.Errorf("write filter layer %d: %w", s.index, err)
	}
	return n + layerHeader + layerTrailer, nil
}

// decodeLayer checks everything before bloom reads it: bloom would allocate memory for any number of bits that the data
// names.
func decodeLayer(b []byte, tag uint64, index int, sealed bool) (l layer, reason string) {
	if len(b) < layerHeader+bloomHeader+layerTrailer {
		return l, "too short"
	}
	if string(b[:4]) != layerMagic {
		return l, "not a filter layer"
	}
	if b[4] != layerVersion || b[5] != hashes {
		return l, fmt.Sprintf("version %d with %d hashes, want %d with %d", b[4], b[5], layerVersion, hashes)
	}
	body, trailer := b[:len(b)-layerTrailer], b[len(b)-layerTrailer:]
	if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(trailer) {
		return l, "checksum mismatch"
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8+8*i:]) }
	switch {
	case word(0) != uint64(index):
		return l, fmt.Sprintf("is layer %d", word(0))
	case word(1) != tag:
		return l, "made with another seed"
	case IsSealed(b) != sealed:
		return l, "is not of the same snapshot as its neighbours"
	case word(2) < 1 || word(3) > word(2):
		return l, "impossible number of keys"
	}
	bits := body[layerHeader:]
	m, k, length := binary.BigEndian.Uint64(bits), binary.BigEndian.Uint64(bits[8:]), binary.BigEndian.Uint64(bits[16:])
	if k != hashes || m != length || m > 1<<50 || m < word(2) || uint64(len(bits)-bloomHeader) != (m+63)/64*8 {
		return l, "size does not match its parameters"
	}
	var bf bloom.BloomFilter
	if _, err := bf.ReadFrom(bytes.NewReader(bits)); err != nil {
		return l, err.Error()
	}
	return wrapLayer(&bf, int(word(2)), int(word(3))), ""
}
