package fetch

import (
	"bufio"
	"io"
	"math"
	"strings"
	"sync"
)

const (
	// maxLayers bounds how many times a body may be compressed.
	maxLayers = 3

	// maxWindow is the largest window of zstd that a client must take (RFC 9659).
	maxWindow = 8 << 20

	// keptWindow is the largest window of a decoder that is kept for another body.
	keptWindow = 2 << 20

	// What a Stream may expand to: maxExpanded bytes, or more if they are no more than maxRatio for each byte that
	// came. Sitemaps expand to a hundred times at most.
	maxExpanded = 32 << 20
	maxRatio    = 256

	// Between two compressions there are at most innerSlack bytes, or more if they are no more than innerRatio for each
	// byte that came: what was compressed once hardly gets smaller. Otherwise a few bytes would become megabytes that
	// take long to decompress.
	innerSlack = 64 << 10
	innerRatio = 4

	// maxEmptyReads is how often in a row a decoder may return nothing.
	maxEmptyReads = 100
)

// decoders keeps decompressors, which are costly to make.
type decoders struct {
	buffered, gzip, zlib, flate, brotli, zstd sync.Pool
}

// decodeBounds are the limits of decoding one body.
type decodeBounds struct {
	call   *call
	most   int64 // bytes that any layer may have
	ratio  bool  // whether each layer is also bound by what came
	budget *budget
	memory *holding // what decoders' windows are charged to
}

// boundsFor gives the limits of a body of at most limit bytes. Its compressed form may be a little larger than that,
// because data that cannot be compressed grows.
func (c *Client) boundsFor(call *call, memory *holding, limit int64) *decodeBounds {
	slack := limit/16 + 64<<10
	return &decodeBounds{call: call, most: min(limit, math.MaxInt64-slack) + slack, budget: &c.buffers.budget,
		memory: memory}
}

// check reports why a layer that has given n bytes must not go on, or nil. An inner one is decompressed once more.
func (b *decodeBounds) check(n int64, inner bool) error {
	if why := b.call.step(); why != nil {
		return why
	}
	if n > b.most {
		return errTooLarge
	}
	if inner && n > innerSlack+innerRatio*b.call.bytes.Load() {
		return errTooLarge
	}
	if b.ratio && n > max(maxExpanded, maxRatio*b.call.bytes.Load()) {
		return errExpands
	}
	return nil
}

// A layer is what comes out of one decoder, or the body as it came. The loops of a decoder
// end only when its source does, so each reads from a layer: that ends when the call is
// over, when it has given more than a body may have, and when nothing comes any more.
type layer struct {
	r      io.Reader
	bounds *decodeBounds
	n      int64 // bytes that it gave
	inner  bool  // another decoder reads it
	ended  bool  // it gave them all
}

func (l *layer) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for range maxEmptyReads {
		if err := l.bounds.check(l.n, l.inner); err != nil {
			return 0, err
		}
		n, err := l.r.Read(p)
		l.n += int64(n)
		l.ended = err == io.EOF
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// A decodedBody is a body without its compression.
type decodedBody struct {
	top  *layer
	free []func() // called in reverse order
}

func (d *decodedBody) Read(p []byte) (int, error) { return d.top.Read(p) }

func (d *decodedBody) release() {
	for i := len(d.free) - 1; i >= 0; i-- {
		d.free[i]()
	}
	d.free = nil
}

// An openFunc makes a decoder. The function that it returns gives the decoder back, and may be nil. Its argument is the
// layer that the decoder has filled.
type openFunc func(d *decoders, b *decodeBounds, in *bufio.Reader) (io.Reader, func(out *layer), error)

// openFuncs are the decoders of a Content-Encoding, the outermost first. An encoding that is
// not known is taken for none, as browsers do.
func openFuncs(header []string) ([]openFunc, error) {
	if len(header) == 0 {
		return nil, nil
	}
	var all []openFunc
	names := strings.Split(strings.ToLower(strings.Join(header, ",")), ",")
	for i := len(names) - 1; i >= 0; i-- {
		var open openFunc
		switch strings.TrimSpace(names[i]) {
		case "gzip", "x-gzip":
			open = (*decoders).openGzip
		case "deflate":
			open = (*decoders).openDeflate
		case "br":
			open = (*decoders).openBrotli
		case "zstd":
			open = (*decoders).openZstd
		default:
			continue
		}
		if len(all) == maxLayers {
			return nil, errLayers
		}
		all = append(all, open)
	}
	return all, nil
}

// open undoes the compression of a body.
func (d *decoders) open(opens []openFunc, b *decodeBounds, body io.Reader) (*decodedBody, error) {
	out := &decodedBody{top: &layer{r: body, bounds: b}}
	for _, open := range opens {
		if err := out.push(d, open); err != nil {
			out.release()
			return nil, err
		}
	}
	return out, nil
}

// push puts a decoder on top of the layers. An empty body stays empty.
func (out *decodedBody) push(d *decoders, open openFunc) error {
	in := pooled(&d.buffered, func() *bufio.Reader { return bufio.NewReaderSize(nil, 8<<10) })
	out.top.inner = true
	in.Reset(out.top)
	out.free = append(out.free, func() { in.Reset(nil); d.buffered.Put(in) })
	top := &layer{r: in, bounds: out.top.bounds}
	out.top = top
	if _, err := in.Peek(1); err != nil {
		if err == io.EOF {
			return nil
		}
		return err
	}
	r, free, err := open(d, top.bounds, in)
	if err != nil {
		return err
	}
	top.r = r
	if free != nil {
		out.free = append(out.free, func() { free(top) })
	}
	return nil
}

func pooled[T any](p *sync.Pool, make func() T) T {
	if v, ok := p.Get().(T); ok {
		return v
	}
	return make()
}
