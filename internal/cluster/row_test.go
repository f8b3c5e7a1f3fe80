package cluster

import (
	"bytes"
	"errors"
	"testing"

	"github.com/mapwright/mapwright/state"
)

func codec(t testing.TB) *RowCodec {
	t.Helper()
	c, err := NewRowCodec()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRow(t *testing.T) {
	c := codec(t)
	after := Place{Seq: 6, Hash: 1<<63 + 7}
	parts := []state.Part{
		{Partition: 9, At: 3, Body: []byte("first")}, {Partition: 9, At: 1 << 40, Body: []byte{}},
		{Partition: 9, At: 1<<40 + 1, Body: bytes.Repeat([]byte("long "), 100_000)},
	}
	body := c.Encode(after, parts)
	if len(body) > 10_000 {
		t.Errorf("%d bytes: it is not compressed", len(body))
	}
	got, err := c.Decode(9, after, body)
	if err != nil || len(got) != len(parts) {
		t.Fatalf("%d parts: %v", len(got), err)
	}
	for i := range parts {
		if g := got[i]; g.Partition != 9 || g.At != parts[i].At || !bytes.Equal(g.Body, parts[i].Body) {
			t.Errorf("part %d differs", i)
		}
	}
	if got, err := c.Decode(9, after, c.Encode(after, nil)); err != nil || len(got) != 0 {
		t.Errorf("an empty row: %v, %v", got, err)
	}
	shrinking := []state.Part{{At: 2}, {At: 2}}
	other := bytes.Clone(c.encoder.EncodeAll([]byte{rowVersion + 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, nil))
	for name, b := range map[string][]byte{
		"cut": body[:len(body)-1], "nothing": {}, "after another row": c.Encode(Place{6, 8}, parts),
		"positions": c.Encode(after, shrinking), "version": other,
	} {
		if _, err := c.Decode(9, after, b); !errors.Is(err, ErrRow) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRow reads any bytes. What can be read is written as the same parts.
func FuzzRow(f *testing.F) {
	c := codec(f)
	head := []byte{rowVersion, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, list := range [][]byte{{0}, {1, 1, 5}, {2, 1, 5, 3, 6, 'a', 'b'}, {1, 200, 1},
		{255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, {1, 0}} {
		f.Add(append(bytes.Clone(head), list...))
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		parts, err := c.Decode(1, Place{}, c.encoder.EncodeAll(plain, nil))
		if err != nil {
			return
		}
		again, err := c.Decode(1, Place{}, c.Encode(Place{}, parts))
		if err != nil || len(again) != len(parts) {
			t.Fatalf("%d parts, then %d: %v", len(parts), len(again), err)
		}
		for i := range parts {
			if parts[i].At != again[i].At || !bytes.Equal(parts[i].Body, again[i].Body) {
				t.Fatalf("part %d differs", i)
			}
		}
	})
}
