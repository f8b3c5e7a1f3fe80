package record

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// PackFrom is the size in bytes from which the body of an origin fact is
	// compressed. Most robots.txt are smaller.
	PackFrom = 1 << 10
	// maxUnpacked bounds what a stored body may grow to, so that damaged bytes
	// cannot take all memory. A record is not larger.
	maxUnpacked = MaxSize
)

// Bodies compresses the bodies of origin facts, and has memory to encode records. The zero value is ready for use,
// by any number of goroutines.
type Bodies struct {
	encoders, decoders, contents sync.Pool
}

// pack returns the body compressed, or false if it is small or would not shrink.
func (c *Bodies) pack(body []byte) ([]byte, bool) {
	if len(body) < PackFrom {
		return nil, false
	}
	e, ok := c.encoders.Get().(*zstd.Encoder)
	if !ok {
		var err error
		e, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(1<<19), zstd.WithEncoderCRC(false))
		if err != nil {
			panic("record: zstd options: " + err.Error()) // they are constants
		}
	}
	defer c.encoders.Put(e)
	packed := e.EncodeAll(body, make([]byte, 0, len(body)))
	return packed, len(packed) < len(body)
}

// unpack is the inverse of pack.
func (c *Bodies) unpack(packed []byte) ([]byte, error) {
	d, ok := c.decoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxUnpacked))
		if err != nil {
			panic("record: zstd options: " + err.Error()) // they are constants
		}
	}
	defer c.decoders.Put(d)
	return d.DecodeAll(packed, nil)
}
