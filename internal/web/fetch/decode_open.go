package fetch

import (
	"bufio"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

func (d *decoders) openGzip(_ *decodeBounds, in *bufio.Reader) (io.Reader, func(*layer), error) {
	if is, err := isGzip(in); err != nil {
		return nil, nil, err
	} else if !is {
		return in, nil, nil // said to be compressed, but is not
	}
	z := pooled(&d.gzip, func() *gzip.Reader { return new(gzip.Reader) })
	if err := z.Reset(in); err != nil {
		return nil, nil, err
	}
	z.Multistream(false)
	return &members{z, in}, func(*layer) { d.gzip.Put(z) }, nil
}

// members reads the members of a gzip file one after the other. What follows the
// last of them is not read, as in browsers.
type members struct {
	z  *gzip.Reader
	in *bufio.Reader
}

func (m *members) Read(p []byte) (int, error) {
	for {
		n, err := m.z.Read(p)
		if err != io.EOF {
			return n, err
		}
		if is, err := isGzip(m.in); err != nil {
			return n, err
		} else if !is {
			return n, io.EOF
		}
		if err := m.z.Reset(m.in); err != nil {
			return n, err
		}
		m.z.Multistream(false)
		if n > 0 {
			return n, nil
		}
		// An empty member. The layer below bounds how many there can be.
	}
}

// isGzip reports whether a member begins here. The error is why that cannot be told.
func isGzip(in *bufio.Reader) (bool, error) {
	head, err := in.Peek(2)
	if err == io.EOF {
		err = nil
	}
	return string(head) == "\x1f\x8b", err
}

// openDeflate reads both things that servers call deflate: zlib's format, which
// is what the name means, and the bare stream.
func (d *decoders) openDeflate(_ *decodeBounds, in *bufio.Reader) (io.Reader, func(*layer), error) {
	head, _ := in.Peek(2)
	if len(head) == 2 && head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
		if z, ok := d.zlib.Get().(io.ReadCloser); ok {
			if err := z.(zlib.Resetter).Reset(in, nil); err != nil {
				return nil, nil, err
			}
			return z, func(*layer) { d.zlib.Put(z) }, nil
		}
		z, err := zlib.NewReader(in)
		if err != nil {
			return nil, nil, err
		}
		return z, func(*layer) { d.zlib.Put(z) }, nil
	}
	z := pooled(&d.flate, func() io.ReadCloser { return flate.NewReader(nil) })
	if err := z.(flate.Resetter).Reset(in, nil); err != nil {
		return nil, nil, err
	}
	return z, func(*layer) { d.flate.Put(z) }, nil
}

const (
	// brotliTables is what the prefix codes of a brotli decoder take at most: three
	// kinds of 256 trees.
	brotliTables = 4 << 20

	// brotliStep is how much a brotli decoder is given at once. Each byte can be an
	// empty meta-block, which clears all tables: megabytes.
	brotliStep = 1 << 10
)

func (d *decoders) openBrotli(b *decodeBounds, in *bufio.Reader) (io.Reader, func(*layer), error) {
	head, err := in.Peek(1)
	if err != nil {
		return nil, nil, err
	}
	memory := brotliWindow(head[0]) + brotliTables
	if err := b.budget.charge(b.call, b.memory, memory); err != nil {
		return nil, nil, err
	}
	z := pooled(&d.brotli, func() *brotli.Reader { return new(brotli.Reader) })
	_ = z.Reset(&steps{in}) // it is always nil
	free := func(out *layer) {
		// The decoder's window grows to the size that the meta-blocks announce.
		if out.ended && out.n <= keptWindow/2 {
			d.brotli.Put(z)
		}
		b.budget.release(b.memory, memory)
	}
	return z, free, nil
}

// brotliWindow is the size of the window by the first byte of a stream (RFC 7932, 9.1).
func brotliWindow(first byte) int64 {
	bits := 16
	if first&1 != 0 {
		switch n, m := first>>1&7, first>>4&7; {
		case n != 0:
			bits = 17 + int(n)
		case m != 0:
			bits = 8 + int(m)
		default:
			bits = 17
		}
	}
	return 1 << bits
}

// steps reads a little at a time.
type steps struct{ r io.Reader }

func (s *steps) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), brotliStep)]) }

// zstdTables is what a zstd decoder takes besides its window: two blocks, literals and
// tables.
const zstdTables = 1 << 20

func (d *decoders) openZstd(b *decodeBounds, in *bufio.Reader) (io.Reader, func(*layer), error) {
	if err := b.budget.charge(b.call, b.memory, zstdTables); err != nil {
		return nil, nil, err
	}
	z := pooled(&d.zstd, func() *zstd.Decoder {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			panic("fetch: zstd options: " + err.Error()) // they are constants
		}
		return z
	})
	frames := &zstdFrames{in: in, bounds: b}
	free := func(*layer) {
		_ = z.Reset(nil)
		if frames.window <= keptWindow {
			d.zstd.Put(z)
		}
		b.budget.release(b.memory, frames.window+zstdTables)
	}
	if err := z.Reset(frames); err != nil {
		free(nil)
		return nil, nil, err
	}
	return z, free, nil
}

// zstdFrames passes the frames of a zstd stream on and charges the window of each before
// the decoder sees its header: the decoder allocates it before a byte of the body is out,
// and any frame may ask for a larger one than those before it.
type zstdFrames struct {
	in     *bufio.Reader
	bounds *decodeBounds
	window int64 // the largest up to here, charged
	left   int64 // bytes up to the next header of a frame or block
	block  bool  // the next header is a block's
	sum    bool  // a checksum ends the frame
}

func (f *zstdFrames) Read(p []byte) (int, error) {
	for f.left == 0 {
		var err error
		if f.block {
			err = f.nextBlock()
		} else {
			err = f.nextFrame()
		}
		if err != nil {
			return 0, err
		}
	}
	n, err := f.in.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, err
}

// nextFrame reads the header of a frame without consuming it.
func (f *zstdFrames) nextFrame() error {
	head, err := f.in.Peek(zstd.HeaderMaxSize)
	if err != nil && (err != io.EOF || len(head) == 0) {
		return err
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		return err
	}
	f.left = int64(h.HeaderSize)
	if h.Skippable {
		f.left += int64(h.SkippableSize)
		return nil
	}
	f.block, f.sum = true, h.HasCheckSum
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	if window > maxWindow || int64(window) <= f.window {
		return nil // the decoder refuses it, or has it
	}
	if err := f.bounds.budget.charge(f.bounds.call, f.bounds.memory, int64(window)-f.window); err != nil {
		return err
	}
	f.window = int64(window)
	return nil
}

// nextBlock reads the header of a block without consuming it.
func (f *zstdFrames) nextBlock() error {
	const size, rle, sum = 3, 1, 4
	head, err := f.in.Peek(size)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	h := uint32(head[0]) | uint32(head[1])<<8 | uint32(head[2])<<16
	f.left = size + int64(h>>3)
	if h>>1&3 == rle {
		f.left = size + 1
	}
	if last := h&1 != 0; last {
		f.block = false
		if f.sum {
			f.left += sum
		}
	}
	return nil
}
