package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state"
)

// rowVersion is the version of the record format, state/FORMAT.md.
const rowVersion = 2

// mostRowMemory bounds what a row is expanded to: batches have 1 MiB, and a record at
// most state.MaxRecordSize.
const mostRowMemory = 64 << 20

// ErrRow means that a row's body cannot be read, or is of another log.
var ErrRow = errors.New("a row of the log cannot be read")

// A RowCodec makes bodies of rows, as state/FORMAT.md describes them, and reads them.
// It may be used concurrently.
type RowCodec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// NewRowCodec makes a codec. It has no goroutines and need not be closed.
func NewRowCodec() (*RowCodec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostRowMemory))
	if err != nil {
		return nil, err
	}
	return &RowCodec{encoder, decoder}, nil
}

// Encode makes the body of the row after a place, from parts of one partition whose
// positions grow.
func (c *RowCodec) Encode(after Place, parts []state.Part) []byte {
	size := 1 + 8 + binary.MaxVarintLen64
	for i := range parts {
		size += 2*binary.MaxVarintLen64 + len(parts[i].Body)
	}
	b := append(make([]byte, 0, size), rowVersion)
	b = binary.BigEndian.AppendUint64(b, after.Hash)
	b = binary.AppendUvarint(b, uint64(len(parts)))
	for i := range parts {
		at := uint64(parts[i].At)
		b = binary.AppendUvarint(b, uint64(uvarintLen(at)+len(parts[i].Body)))
		b = binary.AppendUvarint(b, at)
		b = append(b, parts[i].Body...)
	}
	return c.encoder.EncodeAll(b, nil)
}

// Decode returns the parts of the row of a partition that follows a place. An error
// wraps ErrRow.
func (c *RowCodec) Decode(partition uint8, after Place, body []byte) ([]state.Part, error) {
	parts, err := c.decode(partition, after, body)
	if err != nil {
		return nil, fmt.Errorf("partition %d, row %d: %w: %w", partition, after.Seq+1, ErrRow, err)
	}
	return parts, nil
}

func (c *RowCodec) decode(partition uint8, after Place, body []byte) ([]state.Part, error) {
	b, err := c.decoder.DecodeAll(body, nil)
	switch {
	case err != nil:
		return nil, err
	case len(b) < 1+8:
		return nil, errors.New("it is too short")
	case b[0] != rowVersion:
		return nil, fmt.Errorf("it has version %d, this program knows %d", b[0], rowVersion)
	case binary.BigEndian.Uint64(b[1:]) != after.Hash:
		return nil, errors.New("it follows another row")
	}
	number, b, ok := cutUvarint(b[9:])
	if !ok || number > uint64(len(b)) {
		return nil, errors.New("it is cut off")
	}
	parts := make([]state.Part, 0, number)
	for range number {
		var size, at uint64
		if size, b, ok = cutUvarint(b); !ok || size > uint64(len(b)) {
			return nil, errors.New("it is cut off")
		}
		element := b[:size:size]
		b = b[size:]
		if at, element, ok = cutUvarint(element); !ok {
			return nil, errors.New("a part has no position")
		}
		if n := len(parts); n > 0 && parts[n-1].At >= frontier.Position(at) {
			return nil, errors.New("positions do not grow")
		}
		parts = append(parts, state.Part{Partition: partition, At: frontier.Position(at), Body: element})
	}
	if len(b) > 0 {
		return nil, errors.New("there is something behind its end")
	}
	return parts, nil
}

// cutUvarint reads a number from the front.
func cutUvarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, b, false
	}
	return v, b[n:], true
}

// uvarintLen is the length of a number as it is written.
func uvarintLen(v uint64) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutUvarint(b[:], v)
}
