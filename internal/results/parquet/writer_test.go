package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// reader decodes Thrift's compact protocol: a struct is a map by field numbers.
type reader struct{ b []byte }

func (r *reader) byte() byte {
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	r.b = r.b[size:]
	return n
}

func (r *reader) value(kind byte) any {
	switch kind {
	case thriftTrue:
		return true
	case thriftI32, thriftI64:
		n, size := binary.Varint(r.b)
		r.b = r.b[size:]
		return int(n)
	case thriftBinary:
		n := r.uvarint()
		text := string(r.b[:n])
		r.b = r.b[n:]
		return text
	case thriftList:
		head := r.byte()
		size := uint64(head >> 4)
		if size == 15 {
			size = r.uvarint()
		}
		var all []any
		for range size {
			all = append(all, r.value(head&15))
		}
		return all
	case thriftStruct:
		fields, last := map[int]any{}, 0
		for head := r.byte(); head != 0; head = r.byte() {
			last += int(head >> 4)
			fields[last] = r.value(head & 15)
		}
		return fields
	}
	panic(fmt.Sprint("kind ", kind))
}

func (r *reader) structure() map[int]any { return r.value(thriftStruct).(map[int]any) }

// levels decodes RLE.
func (r *reader) levels() (all []byte) {
	size := binary.LittleEndian.Uint32(r.b)
	in := reader{r.b[4 : 4+size]}
	r.b = r.b[4+size:]
	for len(in.b) > 0 {
		n := in.uvarint() >> 1
		all = append(all, bytes.Repeat([]byte{in.byte()}, int(n))...)
	}
	return all
}

// read decodes the column with a number: one value for each row.
func read(t *testing.T, file []byte, number int, kind Kind) (rows []any) {
	t.Helper()
	if !bytes.HasPrefix(file, []byte("PAR1")) || !bytes.HasSuffix(file, []byte("PAR1")) {
		t.Fatal("no Parquet file")
	}
	size := binary.LittleEndian.Uint32(file[len(file)-8:])
	footer := (&reader{file[len(file)-8-int(size):]}).structure()
	groups, _ := footer[4].([]any)
	total := 0
	unzip, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unzip.Close()
	for _, g := range groups {
		total += g.(map[int]any)[3].(int)
		meta := g.(map[int]any)[1].([]any)[number].(map[int]any)[3].(map[int]any)
		chunk := reader{file[meta[9].(int):][:meta[7].(int)]}
		for left := meta[5].(int); left > 0; {
			head := chunk.structure()
			text, err := unzip.DecodeAll(chunk.b[:head[3].(int)], nil)
			if err != nil || len(text) != head[2].(int) {
				t.Fatalf("a page of %d bytes: %v", len(text), err)
			}
			chunk.b = chunk.b[head[3].(int):]
			page := reader{text}
			var rep []byte
			if kind == Texts {
				rep = page.levels()
			}
			def := page.levels()
			if len(def) != head[5].(map[int]any)[1].(int) {
				t.Fatalf("%d levels", len(def))
			}
			left -= len(def)
			rows = append(rows, page.values(kind, rep, def)...)
		}
		if len(chunk.b) > 0 {
			t.Fatalf("%d bytes after the last page", len(chunk.b))
		}
	}
	if total != footer[3].(int) || total != len(rows) {
		t.Fatalf("%d rows, and the metadata says %d and %d", len(rows), total, footer[3])
	}
	return rows
}

func (r *reader) values(kind Kind, rep, def []byte) (rows []any) {
	text := func() string {
		size := binary.LittleEndian.Uint32(r.b)
		s := string(r.b[4 : 4+size])
		r.b = r.b[4+size:]
		return s
	}
	bits := 0
	for i, d := range def {
		switch {
		case d == 0:
			rows = append(rows, nil)
		case kind == Texts && d == 1:
			rows = append(rows, []string{})
		case kind == Texts && rep[i] == 1:
			last := &rows[len(rows)-1]
			*last = append((*last).([]string), text())
		case kind == Texts:
			rows = append(rows, []string{text()})
		case kind == Boolean:
			rows = append(rows, r.b[bits/8]>>(bits%8)&1 == 1)
			bits++
		case kind == Integer, kind == Timestamp:
			n := int64(binary.LittleEndian.Uint64(r.b))
			r.b = r.b[8:]
			if kind == Timestamp {
				rows = append(rows, time.UnixMilli(n).UTC())
			} else {
				rows = append(rows, n)
			}
		default:
			rows = append(rows, text())
		}
	}
	return rows
}

func TestRoundTrip(t *testing.T) {
	columns := []Column{{"text", Text}, {"json", JSON}, {"integer", Integer}, {"boolean", Boolean},
		{"timestamp", Timestamp}, {"texts", Texts}}
	at := time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.UTC)
	few := [][]any{
		{"a", `{"b":1}`, int64(-5), true, at, []string{"x", "", "z"}},
		{nil, nil, nil, nil, nil, nil},
		{"", "[]", int64(0), false, time.UnixMilli(0).UTC(), []string{}},
		{"ä", nil, int64(1 << 40), true, nil, []string{"one"}},
	}
	var many [][]any // pages and groups end at different places
	long := strings.Repeat("long ", 300)
	for i := range 12_000 {
		row := []any{fmt.Sprint(i), nil, int64(i), i%3 == 0, at.Add(time.Duration(i) * time.Second), []string{"a", "b"}}
		if i%50 == 0 {
			row[1], row[3], row[5] = long, nil, []string{long, long, long}
		}
		many = append(many, row)
	}
	for name, rows := range map[string][][]any{"none": nil, "few": few, "many": many} {
		var file bytes.Buffer
		w, err := New(&file, "test", columns)
		if err != nil {
			t.Fatal(err)
		}
		w.most = 10_000
		for _, row := range rows {
			if err := w.Add(row); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for i, c := range columns {
			got := read(t, file.Bytes(), i, c.Kind)
			if len(got) != len(rows) {
				t.Fatalf("%s: %d rows of %s, want %d", name, len(got), c.Name, len(rows))
			}
			for n, row := range rows {
				if !reflect.DeepEqual(got[n], row[i]) {
					t.Fatalf("%s: row %d: %s is %#v, want %#v", name, n, c.Name, got[n], row[i])
				}
			}
		}
	}
}

func TestWrongValues(t *testing.T) {
	w, err := New(&bytes.Buffer{}, "test", []Column{{"text", Text}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range [][]any{{}, {"a", "b"}, {int64(1)}, {[]string{"a"}}, {1}} {
		if w.Add(row) == nil {
			t.Errorf("%v is taken", row)
		}
	}
	if err := w.Add([]any{"not \xff UTF-8"}); err != nil ||
		!bytes.Contains(w.columns[0].values, []byte("not \uFFFD UTF-8")) {
		t.Errorf("%q, %v", w.columns[0].values, err)
	}
}
