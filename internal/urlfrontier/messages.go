package urlfrontier

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that codec wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mapwright/mapwright/internal/urlqueue"
)

// The messages that carry URLs are read and written here, field by field: metadata then stays as the client sent it,
// and no objects are made of it. All other messages are those of the generated code. BenchmarkReadItem: 0.4 to 0.8 µs
// and no allocation, against 1.8 to 3.3 µs and 15 allocations of the generated code, in a put of about 4 µs.

// message is an encoded message. Where it is received, its memory is used again for the next one.
type message []byte

// codec is the codec of gRPC for protocol buffers, and passes a message as it is.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(message); ok {
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	n := data.Len()
	if cap(*m) < n {
		*m = make(message, n, 2*n)
	}
	*m = (*m)[:n]
	data.CopyTo(*m)
	return nil
}

// Numbers of fields in urlfrontier.proto.
const (
	itemDiscovered = 1
	itemKnown      = 2
	itemID         = 3
	itemCreated    = 4

	anyInfo = 1 // of DiscoveredURLItem and KnownURLItem

	knownRefetch = 2

	infoURL      = 1
	infoKey      = 2
	infoMetadata = 3
	infoCrawl    = 4

	batchID    = 1
	batchItems = 2

	ackID     = 1
	ackStatus = 2
)

var (
	errUTF8   = errors.New("a text is not valid UTF-8")
	errNumber = errors.New("a field has a number that there cannot be")
)

// fields calls fn for each field of a message. Numbers are given in n, texts and messages in b.
func fields(m []byte, fn func(num protowire.Number, b []byte, n uint64) error) error {
	for len(m) > 0 {
		num, typ, size := protowire.ConsumeTag(m)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if !num.IsValid() {
			return errNumber
		}
		var b []byte
		var n uint64
		rest := m[size:]
		switch typ {
		case protowire.BytesType:
			b, size = protowire.ConsumeBytes(rest)
			if size >= 0 && b == nil {
				b = []byte{}
			}
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(rest)
		default:
			size = protowire.ConsumeFieldValue(num, typ, rest)
			num = 0 // no message here has such fields
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		m = rest[size:]
		if num > 0 {
			if err := fn(num, b, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// readItem reads a URLItem. What it returns are parts of m.
func readItem(m []byte, item *urlqueue.Item) (id []byte, err error) {
	*item = urlqueue.Item{}
	var found bool
	err = fields(m, func(num protowire.Number, b []byte, _ uint64) error {
		switch num {
		case itemDiscovered, itemKnown:
			if found {
				return errors.New("the item is given twice")
			}
			found = true
			item.Known = num == itemKnown
			return readPut(b, item)
		case itemID:
			if !utf8.Valid(b) {
				return errUTF8
			}
			id = b
		}
		return nil
	})
	if len(id) == 0 {
		id = item.URL
	}
	return id, err
}

// readPut reads a DiscoveredURLItem or KnownURLItem.
func readPut(m []byte, item *urlqueue.Item) error {
	var found bool
	return fields(m, func(num protowire.Number, b []byte, n uint64) error {
		switch {
		case num == anyInfo:
			if found {
				return errors.New("the URLInfo is given twice")
			}
			found = true
			return readInfo(b, item)
		case num == knownRefetch && item.Known:
			item.Refetch = n
		}
		return nil
	})
}

// readInfo reads a URLInfo.
func readInfo(m []byte, item *urlqueue.Item) error {
	for len(m) > 0 {
		num, typ, tag := protowire.ConsumeTag(m)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		if !num.IsValid() {
			return errNumber
		}
		size := protowire.ConsumeFieldValue(num, typ, m[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		whole := m[:tag+size]
		m = m[tag+size:]
		if typ != protowire.BytesType {
			continue
		}
		b, _ := protowire.ConsumeBytes(whole[tag:])
		switch num {
		case infoURL:
			item.URL = b
		case infoKey:
			item.Key = b
		case infoCrawl:
			item.Crawl = b
		case infoMetadata:
			if err := checkMetadata(b); err != nil {
				return err
			}
			item.Metadata = join(item.Metadata, whole)
			continue
		default:
			continue
		}
		if !utf8.Valid(b) {
			return errUTF8
		}
	}
	if len(bytes.TrimSpace(item.Crawl)) == 0 {
		item.Crawl = defaultCrawlBytes
	}
	if len(item.Key) == 0 {
		item.Key = hostOf(item.URL)
	}
	return nil
}

// join appends b to a. If b follows a in memory, nothing is copied.
func join(a, b []byte) []byte {
	if len(a) == 0 {
		return b[:len(b):cap(b)]
	}
	if cap(a) >= len(a)+len(b) && &a[:len(a)+1][len(a)] == &b[0] {
		return a[:len(a)+len(b)]
	}
	return append(a[:len(a):len(a)], b...)
}

// checkMetadata refuses an entry of the map that other programs could not read.
func checkMetadata(entry []byte) error {
	return fields(entry, func(num protowire.Number, b []byte, _ uint64) error {
		switch num {
		case 1:
			if !utf8.Valid(b) {
				return errUTF8
			}
		case 2:
			return fields(b, func(num protowire.Number, b []byte, _ uint64) error {
				if num == 1 && !utf8.Valid(b) {
					return errUTF8
				}
				return nil
			})
		}
		return nil
	})
}

// readBatch reads a DiscoveredBatch. What it returns are parts of m.
func readBatch(m []byte, items []urlqueue.Item) (id []byte, _ []urlqueue.Item, err error) {
	err = fields(m, func(num protowire.Number, b []byte, _ uint64) error {
		switch num {
		case batchID:
			if !utf8.Valid(b) {
				return errUTF8
			}
			id = b
		case batchItems:
			items = append(items, urlqueue.Item{})
			if err := readInfo(b, &items[len(items)-1]); err != nil {
				return fmt.Errorf("item %d: %w", len(items), err)
			}
		}
		return nil
	})
	return id, items, err
}

// appendAck appends an AckMessage.
func appendAck(b, id []byte, status urlqueue.Status) []byte {
	if len(id) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, ackID, protowire.BytesType), id)
	}
	if status != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, ackStatus, protowire.VarintType), uint64(status))
	}
	return b
}

// appendBatchAck appends a BatchAck.
func appendBatchAck(b, id []byte, status []urlqueue.Status) []byte {
	if len(id) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, ackID, protowire.BytesType), id)
	}
	if len(status) > 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, ackStatus, protowire.BytesType), uint64(len(status)))
		for _, s := range status {
			b = append(b, byte(s)) // one byte each: the numbers are below 128
		}
	}
	return b
}

// infoSize is how many bytes appendInfo appends.
func infoSize(u *urlqueue.URL) int {
	return 3 + protowire.SizeBytes(len(u.Text)) + protowire.SizeBytes(len(u.Key)) + protowire.SizeBytes(len(u.Crawl)) +
		len(u.Metadata)
}

// appendInfo appends a URLInfo.
func appendInfo(b []byte, u *urlqueue.URL) []byte {
	b = protowire.AppendBytes(protowire.AppendTag(b, infoURL, protowire.BytesType), u.Text)
	b = protowire.AppendString(protowire.AppendTag(b, infoKey, protowire.BytesType), u.Key)
	b = append(b, u.Metadata...)
	return protowire.AppendString(protowire.AppendTag(b, infoCrawl, protowire.BytesType), u.Crawl)
}

// appendItem appends a URLItem with a known URL.
func appendItem(b []byte, u *urlqueue.URL) []byte {
	info := infoSize(u)
	known := 1 + protowire.SizeBytes(info)
	if u.Refetch > 0 {
		known += 1 + protowire.SizeVarint(u.Refetch)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, itemKnown, protowire.BytesType), uint64(known))
	b = protowire.AppendVarint(protowire.AppendTag(b, anyInfo, protowire.BytesType), uint64(info))
	b = appendInfo(b, u)
	if u.Refetch > 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, knownRefetch, protowire.VarintType), u.Refetch)
	}
	return protowire.AppendVarint(protowire.AppendTag(b, itemCreated, protowire.VarintType), u.Created)
}

// slab gives memory for messages that gRPC keeps until they are sent.
type slab []byte

const slabSize = 64 << 10

// next returns n bytes of capacity.
func (s *slab) next(n int) []byte {
	if cap(*s)-len(*s) < n {
		*s = make([]byte, 0, max(n, slabSize))
	}
	start := len(*s)
	*s = (*s)[:start+n]
	return (*s)[start : start : start+n]
}
