package weburl

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// Keys and partitions lie on disk. If one of these values changes, crawls that
// exist can no longer be read.
func TestKeysAreStable(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		url  string
		want Key
	}{
		{0, "http://a/", Key{0xd2a180630e29ff5c, 0xd6687a7cbfc630db, 0x7619be69c457d1dd}},
		{1, "http://a/", Key{0xd22834c00997e02c, 0xa480c6e3266a6a00, 0xf107687dcdb84250}},
		{0x0123456789abcdef, "https://www.example.com/products/shoes/index.html?ref=home",
			Key{0x282cc6c547c803f9, 0x9a47e87ecfa270f, 0x1242aa1d1053a8a4}},
		{0x0123456789abcdef, "http://somebody.github.io:8080/",
			Key{0x42720e696c5daa8c, 0xb490cab5fc8de5e8, 0xc38e0b11761f58b1}},
		{0xffffffffffffffff, "http://127.0.0.1/", Key{0xc0ba14a7a069ac3f, 0xc61251dac9194cb3, 0x8e97ad5ab4e3f04e}},
		{0xffffffffffffffff, "https://xn--bcher-kva.example.co.uk/" + strings.Repeat("long/", 100),
			Key{0x15198ea52cb259dd, 0x35c54b98be0fedba, 0x389c417e59eca4a9}},
	} {
		u := mustParse(t, c.url)
		h := NewHasher(c.seed)
		got := h.Key(u)
		if got != c.want {
			t.Errorf("seed %#x: Key(%q) = %#x, want %#x", c.seed, u, got, c.want)
		}
		if of := h.KeyOf(h.HostID(u.Host()), []byte(u.String())); of != got {
			t.Errorf("KeyOf(%q) = %x, Key says %x", u, of, got)
		}
	}
}

func TestPartitionsAreStable(t *testing.T) {
	for _, c := range []struct {
		domain string
		want   uint8
	}{
		{"", 239}, {"example.com", 40}, {"example.co.uk", 21}, {"localhost", 8}, {"127.0.0.1", 192}, {"[::1]", 5},
	} {
		if got := Partition(c.domain); got != c.want {
			t.Errorf("Partition(%q) = %d, want %d", c.domain, got, c.want)
		}
	}
}

func TestHostID(t *testing.T) {
	h := NewHasher(7)
	id := h.HostID("www.example.com")
	if id.Partition() != Partition("example.com") {
		t.Errorf("partition %d, want that of the registrable domain, %d", id.Partition(), Partition("example.com"))
	}
	if got := h.HostID("www.example.com."); got != id {
		t.Errorf("with a dot at the end the host is %x, want %x", got, id)
	}
	if got := h.HostID("example.com"); got == id || got.Partition() != id.Partition() {
		t.Errorf("example.com is %x and www.example.com %x: want two hosts in one partition", got, id)
	}
	if got := NewHasher(8).HostID("www.example.com"); got == id || got.Partition() != id.Partition() {
		t.Errorf("under another seed the host is %x, was %x: want another one in the same partition", got, id)
	}
}

func TestKeyTellsURLsApart(t *testing.T) {
	h := NewHasher(7)
	a, b := h.Key(mustParse(t, "http://example.com/a")), h.Key(mustParse(t, "http://example.com/b"))
	if a.Host != b.Host || a.Hi == b.Hi || a.Lo == b.Lo || a.Hi == a.Lo {
		t.Errorf("keys %x and %x: want one host and four hashes", a, b)
	}
	if s := h.Key(mustParse(t, "https://example.com/a")); s.Host != a.Host || s == a {
		t.Errorf("keys %x and %x: want one host, whatever the scheme", a, s)
	}
}

func TestKeyOnDisk(t *testing.T) {
	keys := []Key{
		{}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1 << 63}, {0, 1 << 63, 0}, {1, 0, 0}, {1 << 56, 2, 3}, {1<<63 | 5, 0, 0},
		{^HostID(0), ^uint64(0), ^uint64(0)},
	}
	for i, k := range keys {
		b := k.Append([]byte("x"))
		if len(b) != 1+KeySize {
			t.Errorf("%x takes %d bytes", k, len(b)-1)
		}
		if got, ok := ParseKey(b[1:]); !ok || got != k {
			t.Errorf("%x comes back as %x, %v", k, got, ok)
		}
		if _, ok := ParseKey(b); ok {
			t.Errorf("%d bytes are a key", len(b))
		}
		for _, o := range keys[i:] {
			if got, want := k.Compare(o), bytes.Compare(k.Append(nil), o.Append(nil)); got != want ||
				o.Compare(k) != -want {
				t.Errorf("Compare(%x, %x) = %d, their bytes say %d", k, o, got, want)
			}
		}
	}
	if !slices.IsSortedFunc(keys, Key.Compare) {
		t.Error("keys are out of order")
	}
}

// TestSecretSum compares with hashing all words at once, around the lengths
// at which sum works otherwise.
func TestSecretSum(t *testing.T) {
	k := secret{seed: 0x1234, factor: 0x9e3779b97f4a7c15}
	text := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 30)
	for n := range len(text) {
		padded := append([]byte(text[:n]), make([]byte, -n&7)...)
		for i := 0; i < len(padded); i += 8 {
			binary.LittleEndian.PutUint64(padded[i:], binary.LittleEndian.Uint64(padded[i:])*k.factor)
		}
		d := xxhash.NewWithSeed(k.seed)
		d.Write(padded)
		if got, want := k.sum(text[:n]), d.Sum64(); got != want {
			t.Fatalf("sum of %d bytes is %x, want %x", n, got, want)
		}
	}
}

// These two URLs have one hash under every seed of xxhash alone.
func TestCraftedCollision(t *testing.T) {
	a := mustParse(t, "http://attacker.example/A.-Z-e06aaaaaaaaaaaaaaaaaaaaaaaa----uK--aaaaaaaaaaaaaaaa")
	b := mustParse(t, "http://attacker.example/1a_-c---aaaaaaaaaaaaaaaaaaaaaaaa------0vaaaaaaaaaaaaaaaa")
	for seed := range uint64(100) {
		x, y := xxhash.NewWithSeed(seed), xxhash.NewWithSeed(seed)
		x.WriteString(a.String())
		y.WriteString(b.String())
		if x.Sum64() != y.Sum64() {
			t.Fatalf("xxhash tells the two apart under seed %d: they prove nothing", seed)
		}
		h := NewHasher(seed)
		if k, o := h.Key(a), h.Key(b); k.Host != o.Host || k.Hi == o.Hi || k.Lo == o.Lo {
			t.Errorf("seed %d: keys %x and %x", seed, k, o)
		}
	}
}

// Copies of a Hasher share what they remember, from any goroutine.
func TestHasherIsShared(t *testing.T) {
	h := NewHasher(3)
	hosts := make([]string, 3<<cacheBits)
	for i := range hosts {
		hosts[i] = "h" + string(rune('a'+i%26)) + strings.Repeat("x", i%5) + "." + string(rune('a'+i/26%26)) +
			string(rune('a'+i/676)) + ".example"
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, host := range hosts {
				if got, want := h.HostID(host).Partition(), Partition(RegistrableDomain(host)); got != want {
					t.Errorf("%s is in partition %d, want %d", host, got, want)
				}
			}
		})
	}
	wg.Wait()
}
