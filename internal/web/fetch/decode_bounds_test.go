package fetch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/mapwright/mapwright/internal/test/long"
)

// packAs compresses text by a Content-Encoding, the last name being the outermost.
func packAs(t testing.TB, encoding, text string) string {
	t.Helper()
	for _, name := range strings.Split(encoding, ",") {
		if name == "deflate" {
			name = "zlib"
		}
		if name == "br" {
			text = packBrotli(t, text)
		} else {
			text = compress(t, name, text)
		}
	}
	return text
}

// packBrotli is quick with long repetitions.
func packBrotli(t testing.TB, text string) string {
	t.Helper()
	var buf bytes.Buffer
	w := brotli.NewWriterLevel(&buf, 3)
	_, _ = io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// TestStackedEncodings serves little that becomes much in a layer of which nothing comes out, or
// almost nothing: empty members and frames, and blocks without content.
func TestStackedEncodings(t *testing.T) {
	const limit, much = 64 << 10, 512 << 10
	emptyBlocks := "\x28\xb5\x2f\xfd\x00\x58" + strings.Repeat("\x00\x00\x00", much/3)
	skipped := "\x50\x2a\x4d\x18\x00\x00\x00\x00"
	repeat := func(s string) string { return strings.Repeat(s, much/len(s)) }
	tests := []struct{ name, inner, outer, body string }{
		{"empty members", "gzip", "br", repeat(compress(t, "gzip", ""))},
		{"empty members", "gzip", "zstd", repeat(compress(t, "gzip", ""))},
		{"empty members", "gzip", "gzip", repeat(compress(t, "gzip", ""))},
		{"empty members", "gzip", "deflate", repeat(compress(t, "gzip", ""))},
		{"empty members", "gzip", "br,zstd", repeat(compress(t, "gzip", ""))},
		{"empty members", "gzip", "zstd,br", repeat(compress(t, "gzip", ""))},
		{"empty frames", "zstd", "br", repeat(compress(t, "zstd", ""))},
		{"empty frames", "zstd", "gzip,br", repeat(compress(t, "zstd", ""))},
		{"skipped frames", "zstd", "br", repeat(skipped)},
		{"empty blocks", "zstd", "br", emptyBlocks},
		{"empty blocks", "zstd", "gzip", emptyBlocks},
		{"empty blocks of deflate", "deflate", "br", repeat("\x00\x00\x00\xff\xff")},
		{"empty meta-blocks", "br", "gzip", "\x6b\x00" + repeat("\x06")},
		{"empty meta-blocks", "br", "br", "\x6b\x00" + repeat("\x06")},
	}
	c := newClient(t, Options{MaxBody: limit})
	for _, tt := range tests {
		encoding, packed := tt.inner+","+tt.outer, packAs(t, tt.outer, tt.body)
		for _, mode := range []Mode{Page, Text, Stream} {
			t.Run(fmt.Sprintf("%s/%s/mode=%d", tt.name, encoding, mode), func(t *testing.T) {
				s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					w.Header().Set("Content-Encoding", encoding)
					_, _ = io.WriteString(w, packed)
				})
				res, err := do(t, c, Request{URL: mustURL(t, s.URL), Mode: mode, MaxBody: limit})
				if err == nil && mode == Stream {
					_, err = io.Copy(io.Discard, res.Reader)
				}
				if KindOf(err) != TooLarge {
					t.Errorf("%d bytes: %v, want it too large", len(packed), err)
				}
			})
		}
	}
}

// endless gives the same bytes again and again, and counts them.
type endless struct {
	data string
	at   int
	n    int64
	then func() // called after each read; may be nil
}

func (e *endless) Read(p []byte) (int, error) {
	if e.data == "" {
		return 0, nil
	}
	n := copy(p, e.data[e.at:])
	e.at = (e.at + n) % len(e.data)
	e.n += int64(n)
	if e.then != nil {
		e.then()
	}
	return n, nil
}

// encodings are all stacks of up to maxLayers encodings, outermost last.
func encodings() []string {
	names := []string{"gzip", "deflate", "br", "zstd"}
	all := slices.Clone(names)
	for last := all; len(all) < 4+16+64; last = all {
		all = slices.Clone(names)
		for _, a := range last {
			for _, b := range names {
				if strings.Count(a, ",") < maxLayers-1 {
					all = append(all, a+","+b)
				}
			}
		}
	}
	return all
}

// decodeAll decodes until the end and returns how much came out.
func decodeAll(c *Client, k *call, encoding string, most int64, in io.Reader) (int64, error) {
	memory := holding{share: c.account}
	bounds := c.boundsFor(k, &memory, most)
	bounds.most = most
	opens, err := openFuncs([]string{encoding})
	if err != nil {
		return 0, err
	}
	decoded, err := c.decoders.open(opens, bounds, in)
	if err != nil {
		return 0, err
	}
	defer decoded.release()
	return io.Copy(io.Discard, decoded)
}

// TestDecodersLookAtTheEnd cancels a call while a body comes that does not end. No decoder of
// any stack reads on.
func TestDecodersLookAtTheEnd(t *testing.T) {
	c := newClient(t, Options{})
	inner := map[string]string{}
	for _, name := range encodings()[:4] {
		inner[name] = strings.Repeat(packAs(t, name, strings.Repeat(" ", 100)), 50)
	}
	for _, encoding := range encodings() {
		first, outer, stacked := strings.Cut(encoding, ",")
		data := inner[first]
		if stacked {
			data = packAs(t, outer, data)
		}
		for _, at := range []int{0, 1, 2, 7} {
			k := &call{parent: t.Context()}
			in := &endless{data: data}
			reads := 0
			in.then = func() {
				if reads++; reads == at+1 {
					k.cancel(io.ErrClosedPipe)
				}
			}
			// Some stacks end before, since what follows the first stream is not part of it.
			if _, err := decodeAll(c, k, encoding, 1<<40, in); reads > at+1 {
				t.Errorf("%s: %d reads, cancelled at the %dth: %v", encoding, reads, at+1, err)
			}
		}
	}
	if c.buffers.budget.free != c.opts.MaxMemory {
		t.Errorf("%d bytes of the budget are free, want all", c.buffers.budget.free)
	}
}

// FuzzDecoders decodes any bytes, once or again and again, by any stack of encodings. It ends,
// no layer has more bytes than it may, and all memory is given back.
func FuzzDecoders(f *testing.F) {
	all := encodings()
	for i, encoding := range all {
		if i%6 < 2 {
			f.Add(uint8(i), i%2 == 0, []byte(packAs(f, encoding, "<p>some text")))
		}
	}
	f.Add(uint8(2), true, []byte("\xcf\xff\xff\xff"))
	f.Add(uint8(2), true, []byte("\x06"))
	f.Add(uint8(3), true, []byte("\x28\xb5\x2f\xfd\x00\x68\x00\x00\x00"))
	f.Add(uint8(3), true, []byte("\x50\x2a\x4d\x18\x00\x00\x00\x00"))
	f.Add(uint8(0), true, []byte(""))
	c, err := New(Options{MaxMemory: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, stack uint8, again bool, data []byte) {
		const most = 256 << 10
		in := &endless{data: string(data)}
		var r io.Reader = in
		if !again {
			r = io.LimitReader(in, int64(len(data)))
		}
		k := &call{parent: t.Context()}
		n, err := decodeAll(c, k, all[int(stack)%len(all)], most, r)
		// Copy reads 32 KiB at once, and a decoder at most as much.
		if over := int64(most + 64<<10); n > over || in.n > over {
			t.Errorf("%d bytes came and %d came out: %v", in.n, n, err)
		}
		if c.buffers.budget.free != 1 {
			t.Errorf("%d bytes of the budget are free, want 1", c.buffers.budget.free)
		}
	})
}

// answers is how many there are at once.
const answers = 24

// manyAtOnce makes requests at once, which keep what they have until the test ends, and
// returns by how much that has made the heap grow.
func manyAtOnce(t *testing.T, o Options, mode Mode, headers, body string) int64 {
	var grown int64
	answer := []byte("HTTP/1.1 200 OK\r\n" + headers + "\r\n\r\n" + body)
	synctest.Test(t, func(t *testing.T) {
		o.Resolver = always("8.8.8.8")
		c := newClient(t, o)
		pipeTo(t, c, func(conn net.Conn) {
			readRequest(conn)
			_, _ = conn.Write(answer)
			_, _ = conn.Read(make([]byte, 1)) // until the client is gone
		})
		ctx, cancel := context.WithCancel(t.Context())
		before := heap()
		var held [answers]*Response
		for i := range held {
			go func() {
				held[i], _ = c.Do(ctx, Request{URL: mustURL(t, fmt.Sprintf("http://h%d.example/", i)), Mode: mode})
				if held[i] != nil && held[i].Reader != nil {
					_, _ = io.ReadFull(held[i].Reader, make([]byte, 100))
				}
			}()
		}
		synctest.Wait()
		grown = heap() - before
		cancel()
		synctest.Wait()
		for _, res := range held {
			res.Close()
		}
		if c.buffers.budget.free != c.opts.MaxMemory {
			t.Errorf("%d bytes of the budget are free, want all", c.buffers.budget.free)
		}
	})
	return grown
}

// heap is how much is in use, after two collections: the first leaves pools half full.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryIsBounded meets many answers at once that ask for much memory, most of them with few
// bytes. What is held is the budget and what one call needs beyond it, besides a little of each.
func TestMemoryIsBounded(t *testing.T) {
	text := strings.Repeat("x", 99) // a read of 100 waits for more
	frame := compress(t, "zstd", "small")
	late := "\x28\xb5\x2f\xfd\x00\x68" + "\x18\x03\x00" + text // window of 8 MiB, a raw block of 99 bytes
	tests := []struct {
		name          string
		mode          Mode
		headers, body string
		one           int64 // what one call needs
	}{
		{"window of brotli", Stream, "Content-Encoding: br", "\xcf\xff\xff\xff" + text, 20 << 20},
		{"window of brotli, type to be guessed", Page, "Content-Encoding: br", "\xcf\xff\xff\xff" + text, 20 << 20},
		{"window of zstd", Stream, "Content-Encoding: zstd", late, 9 << 20},
		{"window of a late frame of zstd", Stream, "Content-Encoding: zstd", frame + frame + late, 9 << 20},
		{"windows in a stack", Stream, "Content-Encoding: br, zstd", "\x28\xb5\x2f\xfd\x00\x68" +
			"\x38\x03\x00\xcf\xff\xff\xff" + text, 30 << 20},
		{"windows-1252", Page, "Content-Type: text/html; charset=windows-1252\r\nContent-Length: 1200000",
			strings.Repeat("\xe9", 1_200_000), 5 << 20},
		{"broken UTF-8", Page, "Content-Type: text/html; charset=utf-8\r\nContent-Length: 1200000",
			strings.Repeat("\xe9", 1_200_000), 5 << 20},
		{"fairly large", Page, "Content-Type: text/html; charset=utf-8\r\nContent-Length: 1000000",
			strings.Repeat("x", 1_000_000), 2 << 20},
		{"large", Page, "Content-Type: text/html; charset=utf-8\r\nContent-Length: 1200000",
			strings.Repeat("x", 1_200_000), 2 << 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const budget, each = 12 << 20, 256 << 10
			most := int64(budget + answers*each + tt.one)
			if grown := manyAtOnce(t, Options{MaxMemory: budget}, tt.mode, tt.headers, tt.body); grown > most {
				t.Errorf("%d answers hold %d MiB, want at most %d", answers, grown>>20, most>>20)
			}
		})
	}
}

// TestStreamExpands streams little that becomes much. It ends early, but for a body that is as
// long as it came.
func TestStreamExpands(t *testing.T) {
	long.Test(t)
	const pieces = maxExpanded>>20 + 1
	piece := strings.Repeat(" ", 1<<20)
	members := strings.Repeat(packAs(t, "gzip", piece), pieces)
	frames := strings.Repeat(packAs(t, "zstd", piece), pieces)
	whole := strings.Repeat(piece, pieces)
	c := newClient(t, Options{})
	for _, tt := range []struct {
		encoding, body string
		want           Kind
	}{
		{"", whole, ""},
		{"gzip", members, TooLarge},
		{"zstd", frames, TooLarge},
		{"br", packAs(t, "br", whole), TooLarge},
		{"gzip, br", packAs(t, "br", members), TooLarge},
		{"zstd, deflate", packAs(t, "deflate", frames), TooLarge},
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", tt.encoding)
			_, _ = io.WriteString(w, tt.body)
		})
		res, err := do(t, c, Request{URL: mustURL(t, s.URL), Mode: Stream})
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Reader)
		if KindOf(err) != tt.want || n < maxExpanded {
			t.Errorf("%s: %d bytes came and %d came out: %v", tt.encoding, len(tt.body), n, err)
		}
	}
}

// TestFramesOfZstd reads frames of several windows, with checksums and without, and such as are
// skipped.
func TestFramesOfZstd(t *testing.T) {
	text := strings.Repeat("all kinds of frames; ", 5000)
	var packed, want bytes.Buffer
	for i, size := range []int{1 << 10, 1 << 20, 4 << 20, 64 << 10} {
		w, err := zstd.NewWriter(&packed, zstd.WithWindowSize(size), zstd.WithEncoderCRC(i%2 == 0),
			zstd.WithSingleSegment(i == 3))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		packed.WriteString("\x53\x2a\x4d\x18\x03\x00\x00\x00abc")
		want.WriteString(text)
	}
	c := newClient(t, Options{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Encoding", "zstd")
		_, _ = w.Write(packed.Bytes())
	})
	res, err := get(t, c, s.URL)
	if err != nil || !bytes.Equal(res.Body, want.Bytes()) {
		t.Errorf("%d bytes, want %d: %v", len(res.Body), want.Len(), err)
	}
}

// Readers of streams that have a place each, of which there are few, leave it while they wait for memory: those who have
// the memory need it.
func TestMemoryIsAwaitedWithoutAPlace(t *testing.T) {
	var zipped bytes.Buffer
	z, err := zstd.NewWriter(&zipped, zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z.Write(make([]byte, 9<<20))
	_ = z.Close()
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Encoding: zstd\r\n"+
		"Content-Length: %d\r\n\r\n%s", zipped.Len(), zipped.Bytes())
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Resolver: always("8.8.8.8"), MaxMemory: 32 << 20})
		pipeTo(t, c, func(conn net.Conn) {
			for readRequest(conn) {
				_, _ = conn.Write(answer)
			}
		})
		// The account has 24 MiB, and each decoder tables of 1 MiB: the last stream has them beyond that, and then no
		// other gets more.
		const streams = 25
		places := make(chan struct{}, 2)
		leave := func() { <-places }
		take := func() { places <- struct{}{} }
		var taken [streams]bool
		var all []*Response
		for i := range streams {
			res, err := c.Do(t.Context(), Request{URL: mustURL(t, "http://a.example/"), Mode: Stream, Timeout: time.Hour,
				Waits: func() func() {
					if !taken[i] {
						return func() {}
					}
					leave()
					return take
				}})
			if err != nil {
				t.Fatal(err)
			}
			defer res.Close()
			all = append(all, res)
		}
		var ended sync.WaitGroup
		for i, res := range all {
			ended.Go(func() {
				take()
				taken[i] = true
				n, err := io.Copy(io.Discard, res.Reader)
				taken[i] = false
				leave()
				res.Close()
				if n != 9<<20 || err != nil {
					t.Errorf("stream %d: %d bytes, %v", i, n, err)
				}
			})
			synctest.Wait() // it waits, for a place or for memory
		}
		ended.Wait()
	})
}
