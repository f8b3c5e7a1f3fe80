package urlqueue

import (
	"encoding/binary"
	"errors"
)

// The first byte of a record is its kind. The numbers lie on disk.
const (
	kindPut      = 1 // a URL with all that is known of it
	kindLease    = 2 // URLs of one queue were given to a client
	kindRemove   = 3 // URLs of one queue are gone
	kindQueue    = 4 // a queue with its settings
	kindDelete   = 5 // a queue and its URLs are gone
	kindSettings = 6 // the settings of the store
)

var errRecord = errors.New("a record has a form that this program does not know")

// putRecord is a URL with all that is known of it.
type putRecord struct {
	queue    uint32
	refetch  uint64 // seconds since 1970; zero if the URL is done
	created  uint64 // seconds since 1970
	until    int64  // end of its lease in milliseconds since 1970, or zero
	url      []byte
	metadata []byte // as the client sent it: fields of a protocol buffer message
}

func (r putRecord) append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, kindPut), uint64(r.queue))
	b = binary.AppendUvarint(b, r.refetch)
	b = binary.AppendUvarint(b, r.created)
	b = binary.AppendUvarint(b, uint64(r.until))
	b = binary.AppendUvarint(b, uint64(len(r.url)))
	return append(append(b, r.url...), r.metadata...)
}

// decoder reads the numbers of a record. After an error it returns zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) text() []byte { return d.bytes(d.number()) }

func (d *decoder) word() uint64 {
	b := d.bytes(8)
	if d.bad {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (d *decoder) queue() uint32 {
	n := d.number()
	d.bad = d.bad || n > maxQueue
	return uint32(n)
}

// end reports whether the record was read without an error to its end.
func (d *decoder) end() error {
	if d.bad || len(d.b) > 0 {
		return errRecord
	}
	return nil
}

// decodePut reads a record of kindPut, its first byte included. The texts are parts of b.
func decodePut(b []byte) (putRecord, error) {
	if len(b) == 0 || b[0] != kindPut {
		return putRecord{}, errRecord
	}
	d := decoder{b: b[1:]}
	r := putRecord{queue: d.queue(), refetch: d.number(), created: d.number(), until: int64(d.number())}
	r.url = d.text()
	r.metadata = d.b
	if d.bad || r.until < 0 {
		return putRecord{}, errRecord
	}
	return r, nil
}

func appendLease(b []byte, queue uint32, at, until int64) []byte {
	b = binary.AppendUvarint(append(b, kindLease), uint64(queue))
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(at)), uint64(until))
}

func appendName(b []byte, e *entry) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, e.hi), e.lo)
}

func appendRemove(b []byte, queue uint32) []byte {
	return binary.AppendUvarint(append(b, kindRemove), uint64(queue))
}

func appendDelete(b []byte, queue uint32) []byte {
	return binary.AppendUvarint(append(b, kindDelete), uint64(queue))
}

func (q *queue) appendRecord(b []byte) []byte {
	b = binary.AppendUvarint(append(b, kindQueue), uint64(q.id))
	b = binary.AppendUvarint(b, uint64(q.delay+1))
	b = binary.AppendUvarint(b, uint64(q.blocked))
	b = binary.AppendUvarint(b, uint64(q.limit))
	b = binary.AppendUvarint(b, uint64(q.produced))
	b = append(binary.AppendUvarint(b, uint64(len(q.crawl.id))), q.crawl.id...)
	return append(binary.AppendUvarint(b, uint64(len(q.key))), q.key...)
}

func appendSettings(b []byte, delay int64, inactive bool) []byte {
	b = binary.AppendUvarint(append(b, kindSettings), uint64(delay))
	if inactive {
		return append(b, 1)
	}
	return append(b, 0)
}
