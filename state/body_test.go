package state

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

// A body is stored as it was given: small ones as they are, larger ones compressed where that makes them smaller.
func TestOriginBodies(t *testing.T) {
	noise := make([]byte, 500<<10+1)
	rng := rand.NewChaCha8([32]byte{1})
	if _, err := rng.Read(noise); err != nil {
		t.Fatal(err)
	}
	rules := []byte(strings.Repeat("Disallow: /private/directory\n", 500<<10/29))
	dir := t.TempDir()
	var codec record.Bodies
	facts := map[string]frontier.OriginFact{}
	s := open(t, dir, small())
	for name, c := range map[string]struct {
		body  []byte
		least int // bytes of the stored value
		most  int
	}{
		"none": {nil, 0, 20}, "small": {rules[:record.PackFrom-1], record.PackFrom - 1, record.PackFrom + 20},
		"larger":             {rules[:record.PackFrom], 0, 100},
		"as large as can be": {rules, 0, 1000}, "not to be compressed": {noise, len(noise), len(noise) + 20},
	} {
		fact := frontier.OriginFact{Host: s.Hasher().HostID(name), Origin: name, State: frontier.OriginAnswered,
			Status: 200, Body: c.body}
		if n := len(codec.AppendOrigin(nil, &fact)); n < c.least || n > c.most {
			t.Errorf("%s: %d bytes stored, want %d to %d", name, n, c.least, c.most)
		}
		facts[name] = fact
		commit(t, s, frontier.Record{Origins: []frontier.OriginFact{fact}})
	}
	check := func(s *Store, when string) {
		t.Helper()
		for name, want := range facts {
			got, ok, err := s.Origin(t.Context(), want.Host, name)
			if err != nil || !ok || !bytes.Equal(got.Body, want.Body) || got.Status != 200 {
				t.Errorf("%s, %s: %d bytes, %v, %v, want %d", when, name, len(got.Body), ok, err, len(want.Body))
			}
		}
	}
	check(s, "committed")
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(s, "applied")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(open(t, dir, small()), "opened again")
}

func TestDamagedBody(t *testing.T) {
	var codec record.Bodies
	value := codec.AppendOrigin(nil, &frontier.OriginFact{Body: bytes.Repeat([]byte("x"), record.PackFrom)})
	at := bytes.Index(value, []byte{0x28, 0xb5, 0x2f, 0xfd}) // a frame of zstd begins so
	if at < 0 {
		t.Fatalf("%x is not compressed", value)
	}
	value[at] ^= 0xff
	_, err := codec.DecodeOrigin(1, "o", value)
	wantErrAs[*CorruptError](t, err)
}
