package fetch

import (
	"bufio"
	"io"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// maxLayers bounds how many times a body may be compressed.
const maxLayers = 3

// maxWindow is the largest window of zstd that a client must take (RFC 9659).
const maxWindow = 8 << 20

// decoders keeps decompressors, which are costly to make.
type decoders struct {
	buffered, gzip, zlib, flate, brotli, zstd sync.Pool
}

// A decodedBody is a body without its compression.
type decodedBody struct {
	io.Reader
	free []func() // the last made first
}

func (d *decodedBody) release() {
	for i := len(d.free) - 1; i >= 0; i-- {
		d.free[i]()
	}
	d.free = nil
}

// open undoes the Content-Encoding of a body. An encoding that nobody knows is
// taken for none, as browsers do.
func (d *decoders) open(b *buffers, c *call, buf *buffer, header []string, body io.Reader) (*decodedBody, error) {
	out := &decodedBody{Reader: body}
	if len(header) == 0 {
		return out, nil
	}
	names := strings.Split(strings.ToLower(strings.Join(header, ",")), ",")
	layers := 0
	for i := len(names) - 1; i >= 0; i-- {
		var open func(*bufio.Reader) (io.Reader, func(), error)
		switch strings.TrimSpace(names[i]) {
		case "gzip", "x-gzip":
			open = d.openGzip
		case "deflate":
			open = d.openDeflate
		case "br":
			open = d.openBrotli
		case "zstd":
			open = func(r *bufio.Reader) (io.Reader, func(), error) { return d.openZstd(b, c, buf, r) }
		default:
			continue
		}
		if layers++; layers > maxLayers {
			out.release()
			return nil, errLayers
		}
		if err := out.push(d, open); err != nil {
			out.release()
			return nil, err
		}
	}
	return out, nil
}

// push puts a decoder on top of the reader. An empty body stays empty.
func (out *decodedBody) push(d *decoders, open func(*bufio.Reader) (io.Reader, func(), error)) error {
	br := pooled(&d.buffered, func() *bufio.Reader { return bufio.NewReaderSize(nil, 8<<10) })
	br.Reset(out.Reader)
	out.free = append(out.free, func() { br.Reset(nil); d.buffered.Put(br) })
	if _, err := br.Peek(1); err != nil {
		out.Reader = br
		if err == io.EOF {
			return nil
		}
		return err
	}
	r, free, err := open(br)
	if err != nil {
		return err
	}
	out.Reader = r
	if free != nil {
		out.free = append(out.free, free)
	}
	return nil
}

func pooled[T any](p *sync.Pool, make func() T) T {
	if v, ok := p.Get().(T); ok {
		return v
	}
	return make()
}

func (d *decoders) openGzip(br *bufio.Reader) (io.Reader, func(), error) {
	if !isGzip(br) {
		return br, nil, nil // said to be compressed, but is not
	}
	z := pooled(&d.gzip, func() *gzip.Reader { return new(gzip.Reader) })
	if err := z.Reset(br); err != nil {
		return nil, nil, err
	}
	z.Multistream(false)
	return &members{z, br}, func() { d.gzip.Put(z) }, nil
}

// members reads the members of a gzip file one after the other. What follows the
// last of them is not read, as in browsers.
type members struct {
	z  *gzip.Reader
	br *bufio.Reader
}

func (m *members) Read(p []byte) (int, error) {
	n, err := m.z.Read(p)
	if err != io.EOF || !isGzip(m.br) {
		return n, err
	}
	if err := m.z.Reset(m.br); err != nil {
		return n, err
	}
	m.z.Multistream(false)
	return n, nil
}

func isGzip(br *bufio.Reader) bool {
	head, _ := br.Peek(2)
	return string(head) == "\x1f\x8b"
}

// openDeflate reads both things that servers call deflate: zlib's format, which
// is what the name means, and the bare stream.
func (d *decoders) openDeflate(br *bufio.Reader) (io.Reader, func(), error) {
	head, _ := br.Peek(2)
	if len(head) == 2 && head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
		if z, ok := d.zlib.Get().(io.ReadCloser); ok {
			if err := z.(zlib.Resetter).Reset(br, nil); err != nil {
				return nil, nil, err
			}
			return z, func() { d.zlib.Put(z) }, nil
		}
		z, err := zlib.NewReader(br)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { d.zlib.Put(z) }, nil
	}
	z := pooled(&d.flate, func() io.ReadCloser { return flate.NewReader(nil) })
	if err := z.(flate.Resetter).Reset(br, nil); err != nil {
		return nil, nil, err
	}
	return z, func() { d.flate.Put(z) }, nil
}

func (d *decoders) openBrotli(br *bufio.Reader) (io.Reader, func(), error) {
	z := pooled(&d.brotli, func() *brotli.Reader { return new(brotli.Reader) })
	if err := z.Reset(br); err != nil {
		return nil, nil, err
	}
	return z, func() { d.brotli.Put(z) }, nil
}

func (d *decoders) openZstd(b *buffers, c *call, buf *buffer, br *bufio.Reader) (io.Reader, func(), error) {
	// The window is memory that the host asks for before a byte of the body is out.
	var h zstd.Header
	if head, _ := br.Peek(zstd.HeaderMaxSize); h.Decode(head) == nil && h.WindowSize > smallBody {
		if err := b.reserve(c, buf); err != nil {
			return nil, nil, err
		}
	}
	z := pooled(&d.zstd, func() *zstd.Decoder {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			panic("fetch: zstd options: " + err.Error()) // they are constants
		}
		return z
	})
	if err := z.Reset(br); err != nil {
		return nil, nil, err
	}
	return z, func() { _ = z.Reset(nil); d.zstd.Put(z) }, nil
}
