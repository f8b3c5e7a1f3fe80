// Package parquet writes tables as Apache Parquet files: flat columns of a few types, each of which may be null, and
// lists of texts. It writes what readers of every kind understand: data pages of version 1, values in the encoding
// PLAIN, levels in RLE, compressed with zstd.
//
// [New] makes a [Writer]. [Writer.Add] adds a row, [Writer.Close] writes the end of the file. Memory is bounded: a
// group of rows is written when it has groupRows rows or groupBytes bytes.
package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A Kind is the type of a column, and says which Go type its values have.
type Kind uint8

// The kinds.
const (
	Text      Kind = iota // string
	JSON                  // string
	Integer               // int64
	Boolean               // bool
	Timestamp             // time.Time, kept in milliseconds of UTC
	Texts                 // []string, a list
)

// A Column is a column of a table.
type Column struct {
	Name string
	Kind Kind
}

const (
	groupRows  = 122_880 // a usual size: readers work on several groups at once
	groupBytes = 32 << 20
	pageBytes  = 1 << 20
)

// Numbers of the format.
const (
	typeBoolean, typeInt64, typeBytes       = 0, 2, 6
	required, optional, repeated            = 0, 1, 2
	utf8Text, list, timestampMillis, isJSON = 0, 3, 9, 19 // converted types
	plain, rle                              = 0, 3
	codecZstd                               = 6
)

// A Writer writes one file. It is not safe for concurrent use.
type Writer struct {
	out     io.Writer
	at      int64
	zip     *zstd.Encoder
	columns []column
	most    int64 // rows of a group
	rows    int64 // of the group
	total   int64
	groups  thrift // the metadata of the groups that are written
	count   int
	program string
}

// column is a column with its values of the current group.
type column struct {
	Column
	values   []byte // of the current page
	bits     int    // values of a Boolean in values
	def, rep levels // of the current page
	chunk    []byte // pages that are complete
	num      int64  // values in chunk, nulls included
	unpacked int64  // size of chunk without compression
}

// New begins a file. Program is noted in it.
func New(out io.Writer, program string, columns []Column) (*Writer, error) {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	w := &Writer{out: out, zip: zip, program: program, most: groupRows}
	for _, c := range columns {
		w.columns = append(w.columns, column{Column: c})
	}
	return w, w.write([]byte("PAR1"))
}

func (w *Writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.at += int64(n)
	return err
}

// Add adds a row: a value for each column, of the type of its Kind, or nil.
func (w *Writer) Add(row []any) error {
	if len(row) != len(w.columns) {
		return fmt.Errorf("a row of %d values for %d columns", len(row), len(w.columns))
	}
	size := 0
	for i := range w.columns {
		c := &w.columns[i]
		if err := c.add(row[i]); err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
		if len(c.values)+len(c.def.runs) > pageBytes {
			c.endPage(w.zip)
		}
		size += len(c.chunk) + len(c.values)
	}
	w.rows++
	if w.rows == w.most || size > groupBytes {
		return w.endGroup()
	}
	return nil
}

// add adds a value. Its definition level says whether it is null: the highest level is a value, and level 1 of a list
// is an empty list. Its repetition level is 0 for the first value of a row.
func (c *column) add(value any) error {
	if !c.Kind.takes(value) {
		return fmt.Errorf("a value of the type %T", value)
	}
	if c.Kind == Texts {
		c.addList(value)
		return nil
	}
	switch v := value.(type) {
	case nil:
		c.def.add(0)
		return nil
	case string:
		c.addText(v)
	case int64:
		c.values = binary.LittleEndian.AppendUint64(c.values, uint64(v))
	case time.Time:
		c.values = binary.LittleEndian.AppendUint64(c.values, uint64(v.UnixMilli()))
	case bool:
		if c.bits%8 == 0 {
			c.values = append(c.values, 0)
		}
		if v {
			c.values[len(c.values)-1] |= 1 << (c.bits % 8)
		}
		c.bits++
	}
	c.def.add(1)
	return nil
}

func (c *column) addList(value any) {
	texts, _ := value.([]string)
	if len(texts) == 0 {
		level := byte(1)
		if value == nil {
			level = 0
		}
		c.def.add(level)
		c.rep.add(0)
	}
	for i, text := range texts {
		c.addText(text)
		c.def.add(2)
		c.rep.add(byte(min(i, 1)))
	}
}

// takes reports whether a column may have the value.
func (k Kind) takes(value any) bool {
	switch value.(type) {
	case nil:
		return true
	case string:
		return k == Text || k == JSON
	case int64:
		return k == Integer
	case time.Time:
		return k == Timestamp
	case bool:
		return k == Boolean
	case []string:
		return k == Texts
	}
	return false
}

func (c *column) addText(text string) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	c.values = binary.LittleEndian.AppendUint32(c.values, uint32(len(text)))
	c.values = append(c.values, text...)
}

// levels are small numbers in the encoding RLE: runs of a length and a value of one byte.
type levels struct {
	runs []byte // without the last run
	last byte   // its value
	n    int    // its length
	all  int    // how many numbers there are
}

func (l *levels) add(level byte) {
	if level != l.last {
		l.endRun()
		l.last = level
	}
	l.n++
	l.all++
}

func (l *levels) endRun() {
	if l.n > 0 {
		l.runs = append(binary.AppendUvarint(l.runs, uint64(l.n)<<1), l.last)
	}
	l.n = 0
}

// appendTo appends the levels as a page has them, and forgets them.
func (l *levels) appendTo(page []byte) []byte {
	l.endRun()
	page = binary.LittleEndian.AppendUint32(page, uint32(len(l.runs)))
	page = append(page, l.runs...)
	*l = levels{runs: l.runs[:0]}
	return page
}

// endPage makes a page of the values that are not in one yet.
func (c *column) endPage(zip *zstd.Encoder) {
	count := c.def.all
	if count == 0 {
		return
	}
	var page []byte
	if c.Kind == Texts {
		page = c.rep.appendTo(page)
	}
	page = append(c.def.appendTo(page), c.values...)
	packed := zip.EncodeAll(page, nil)
	var head thrift
	head.begin()
	head.i32(1, 0) // a data page
	head.i32(2, len(page))
	head.i32(3, len(packed))
	head.structure(5, func() {
		head.i32(1, count)
		head.i32(2, plain)
		head.i32(3, rle)
		head.i32(4, rle)
	})
	head.end()
	c.chunk = append(append(c.chunk, head.b...), packed...)
	c.num += int64(count)
	c.unpacked += int64(len(head.b) + len(page))
	c.values, c.bits = c.values[:0], 0
}

// endGroup writes the rows that are not written yet.
func (w *Writer) endGroup() error {
	if w.rows == 0 {
		return nil
	}
	g := &w.groups
	g.begin()
	g.list(1, thriftStruct, len(w.columns))
	var unpacked int64
	for i := range w.columns {
		c := &w.columns[i]
		c.endPage(w.zip)
		at := w.at
		if err := w.write(c.chunk); err != nil {
			return err
		}
		c.describe(g, at)
		unpacked += c.unpacked
		c.chunk, c.num, c.unpacked = c.chunk[:0], 0, 0
	}
	g.i64(2, unpacked)
	g.i64(3, w.rows)
	g.end()
	w.total += w.rows
	w.count++
	w.rows = 0
	return nil
}

// describe writes the metadata of the column's values in a group, which begin at the given place.
func (c *column) describe(t *thrift, at int64) {
	t.begin()
	t.i64(2, 0)
	t.structure(3, func() {
		t.i32(1, c.Kind.physical())
		t.list(2, thriftI32, 2)
		t.varint(plain)
		t.varint(rle)
		path := []string{c.Name}
		if c.Kind == Texts {
			path = append(path, "list", "element")
		}
		t.list(3, thriftBinary, len(path))
		for _, name := range path {
			t.text(name)
		}
		t.i32(4, codecZstd)
		t.i64(5, c.num)
		t.i64(6, c.unpacked)
		t.i64(7, int64(len(c.chunk)))
		t.i64(9, at)
	})
	t.end()
}

// physical is how values are stored.
func (k Kind) physical() int {
	switch k {
	case Boolean:
		return typeBoolean
	case Integer, Timestamp:
		return typeInt64
	}
	return typeBytes
}

// Close writes the last rows and the end of the file. It does not close the io.Writer.
func (w *Writer) Close() error {
	if err := w.endGroup(); err != nil {
		return err
	}
	t := &thrift{}
	t.begin()
	t.i32(1, 2)
	elements := 1
	for i := range w.columns {
		if elements++; w.columns[i].Kind == Texts {
			elements += 2
		}
	}
	t.list(2, thriftStruct, elements)
	t.begin()
	t.string(4, "schema")
	t.i32(5, len(w.columns))
	t.end()
	for i := range w.columns {
		w.columns[i].schema(t)
	}
	t.i64(3, w.total)
	t.list(4, thriftStruct, w.count)
	t.b = append(t.b, w.groups.b...)
	t.string(6, w.program)
	t.end()
	if len(t.b) > math.MaxInt32 {
		return fmt.Errorf("metadata of %d bytes", len(t.b))
	}
	end := binary.LittleEndian.AppendUint32(t.b, uint32(len(t.b)))
	return w.write(append(end, "PAR1"...))
}

// schema describes the column. A list is a group with a repeated group of one element, as the format asks for.
func (c *column) schema(t *thrift) {
	if c.Kind == Texts {
		group(t, optional, c.Name, func() {
			t.i32(6, list)
			t.structure(10, func() { t.structure(3, nil) })
		})
		group(t, repeated, "list", nil)
	}
	t.begin()
	t.i32(1, c.Kind.physical())
	if c.Kind == Texts {
		t.i32(3, required)
		t.string(4, "element")
	} else {
		t.i32(3, optional)
		t.string(4, c.Name)
	}
	switch c.Kind {
	case Text, Texts:
		t.i32(6, utf8Text)
		t.structure(10, func() { t.structure(1, nil) })
	case JSON:
		t.i32(6, isJSON)
		t.structure(10, func() { t.structure(12, nil) })
	case Timestamp:
		t.i32(6, timestampMillis)
		t.structure(10, func() {
			t.structure(8, func() {
				t.field(1, thriftTrue) // in UTC
				t.structure(2, func() { t.structure(1, nil) })
			})
		})
	}
	t.end()
}

// group describes a group of one child.
func group(t *thrift, repetition int, name string, more func()) {
	t.begin()
	t.i32(3, repetition)
	t.string(4, name)
	t.i32(5, 1)
	if more != nil {
		more()
	}
	t.end()
}
