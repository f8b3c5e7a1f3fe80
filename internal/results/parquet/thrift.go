package parquet

import "encoding/binary"

// Types of Thrift's compact protocol, in which the metadata of Parquet is written.
const (
	thriftTrue   = 1
	thriftI32    = 5
	thriftI64    = 6
	thriftBinary = 8
	thriftList   = 9
	thriftStruct = 12
)

// A thrift writes one struct after another. Fields of a struct are written in the order of their numbers.
type thrift struct {
	b    []byte
	last []int // the number of the last field, for each struct that is open
}

func (t *thrift) begin() { t.last = append(t.last, 0) }

func (t *thrift) end() {
	t.b = append(t.b, 0)
	t.last = t.last[:len(t.last)-1]
}

// field writes the header of a field. Numbers are at most 15 apart.
func (t *thrift) field(number int, kind byte) {
	last := &t.last[len(t.last)-1]
	t.b = append(t.b, byte(number-*last)<<4|kind)
	*last = number
}

func (t *thrift) varint(n int64) { t.b = binary.AppendVarint(t.b, n) } // zigzag, as Thrift has it

func (t *thrift) text(s string) {
	t.b = binary.AppendUvarint(t.b, uint64(len(s)))
	t.b = append(t.b, s...)
}

func (t *thrift) i32(number int, n int) {
	t.field(number, thriftI32)
	t.varint(int64(n))
}

func (t *thrift) i64(number int, n int64) {
	t.field(number, thriftI64)
	t.varint(n)
}

func (t *thrift) string(number int, s string) {
	t.field(number, thriftBinary)
	t.text(s)
}

// list writes the header of a list; its elements follow.
func (t *thrift) list(number int, kind byte, size int) {
	t.field(number, thriftList)
	if size < 15 {
		t.b = append(t.b, byte(size)<<4|kind)
		return
	}
	t.b = binary.AppendUvarint(append(t.b, 0xf0|kind), uint64(size))
}

// structure writes a field that is a struct. Content writes its fields; nil means that it has none.
func (t *thrift) structure(number int, content func()) {
	t.field(number, thriftStruct)
	t.begin()
	if content != nil {
		content()
	}
	t.end()
}
