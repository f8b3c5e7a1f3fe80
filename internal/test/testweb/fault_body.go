package testweb

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Where says which URLs a fault concerns: some of its own, which are linked from
// pages of the tree, or every page of the host, those of other faults included.
type Where struct {
	Count int  `yaml:"count"` // URLs of its own. Zero means 1
	All   bool `yaml:"all"`   // every page instead
}

// Hang does not answer.
type Hang struct {
	Where `yaml:",inline"`
	// For is how long, after which it answers after all. Zero means for ever.
	For time.Duration `yaml:"for"`
}

// Drip sends its body a few bytes at a time.
type Drip struct {
	Where    `yaml:",inline"`
	Chunk    int           `yaml:"chunk"`    // bytes at a time. Zero means 16
	Interval time.Duration `yaml:"interval"` // between two chunks. Zero means 1 s
	Size     int           `yaml:"size"`     // bytes of body. Zero means 1,024
}

// Reset breaks the connection with an RST.
type Reset struct {
	Where `yaml:",inline"`
	// After is how many bytes of body are sent first. Zero means none, and no
	// head either.
	After int `yaml:"after"`
}

// Truncate closes the connection in the middle of the body.
type Truncate struct {
	Where   `yaml:",inline"`
	Chunked bool `yaml:"chunked"` // instead of a Content-Length that is not kept
}

// Huge sends a body of HTML without an end in sight.
type Huge struct {
	Where `yaml:",inline"`
	Size  int64 `yaml:"size"` // Zero means 64 MiB
}

// GzipBomb sends a small body that unpacks to a huge one.
type GzipBomb struct {
	Where `yaml:",inline"`
	Size  int64 `yaml:"size"` // unpacked, rounded up to MiB. Zero means 1 GiB
}

func (Hang) Kind() string     { return "hang" }
func (Drip) Kind() string     { return "drip" }
func (Reset) Kind() string    { return "reset" }
func (Truncate) Kind() string { return "truncate" }
func (Huge) Kind() string     { return "huge" }
func (GzipBomb) Kind() string { return "gzip_bomb" }

func (f Where) check(numbers ...int64) error {
	if f.Count < 0 {
		return fmt.Errorf("count %d: want no less than 0", f.Count)
	}
	for _, n := range numbers {
		if n < 0 {
			return errors.New("want no negative size or time")
		}
	}
	return nil
}

// spread installs an answer at /name/0, /name/1 and so on, or everywhere.
func (f Where) spread(p *plan, name string, answer func(*exchange), v func(Crawl) verdict) {
	if f.All {
		p.same = &sameAnswer{answer: answer, verdict: v}
		return
	}
	for i := range max(f.Count, 1) {
		uri := "/" + name + "/" + strconv.Itoa(i)
		p.add(leaf{uri: uri, href: uri, answer: answer, verdict: v})
	}
}

// fails is the verdict on a URL that fails in such a way that the host may be
// given up with it, when it is all that the host does.
func (f Where) fails(outcome string) verdict {
	if f.All {
		return verdict{outcomes: []string{outcome, OutcomeHostBlocked}}
	}
	return verdict{outcomes: []string{outcome}}
}

func (f Hang) validate(Config) error { return f.check(int64(f.For)) }

func (f Hang) install(p *plan, _ *web) {
	wait := f.For
	wait = cmp.Or(wait, -1)
	f.spread(p, "hang", func(x *exchange) {
		if !x.c.wait(wait) {
			x.gone()
			return
		}
		x.html(simplePage("Slow but sure", ""))
	}, func(c Crawl) verdict {
		if wait > 0 && wait < c.Timeout {
			return ok("Slow but sure")
		}
		return f.fails(OutcomeTimeout)
	})
}

func (f Drip) validate(Config) error {
	return f.check(int64(f.Chunk), int64(f.Interval), int64(f.Size))
}

func (f Drip) install(p *plan, _ *web) {
	f.Chunk = cmp.Or(f.Chunk, 16)
	f.Interval = cmp.Or(f.Interval, time.Second)
	f.Size = cmp.Or(f.Size, 1024)
	f.spread(p, "drip", func(x *exchange) {
		body := sizedPage("Drip", f.Size)
		s := x.stream(typeHTML, "", int64(len(body)))
		for len(body) > f.Chunk && s.err == nil {
			s.Write([]byte(body[:f.Chunk]))
			s.flush()
			body = body[f.Chunk:]
			if !x.c.wait(f.Interval) {
				s.err = errClientGone
				x.broken, x.c.done = true, true
			}
		}
		s.Write([]byte(body))
		s.close()
	}, func(c Crawl) verdict {
		pauses := (len(sizedPage("Drip", f.Size)) - 1) / f.Chunk
		if time.Duration(pauses)*f.Interval < c.Timeout {
			return ok("Drip")
		}
		return f.fails(OutcomeTimeout)
	})
}

func (f Reset) validate(Config) error { return f.check(int64(f.After)) }

func (f Reset) install(p *plan, _ *web) {
	f.spread(p, "reset", func(x *exchange) {
		if f.After > 0 {
			s := x.stream(typeHTML, "", int64(f.After)+1000)
			s.Write([]byte(sizedPage("Reset", f.After+1000)[:f.After]))
			s.breakOff()
		}
		x.finish(0)
		x.c.reset()
	}, func(Crawl) verdict { return f.fails(OutcomeReadError) })
}

func (f Truncate) validate(Config) error { return f.check() }

func (f Truncate) install(p *plan, _ *web) {
	f.spread(p, "truncate", func(x *exchange) {
		body := sizedPage("Truncated", 2000)
		length := int64(len(body))
		if f.Chunked {
			length = -1
		}
		s := x.stream(typeHTML, "", length)
		s.Write([]byte(body[:1000]))
		s.breakOff()
	}, func(Crawl) verdict { return f.fails(OutcomeReadError) })
}

func (f Huge) validate(Config) error { return f.check(f.Size) }

func (f Huge) install(p *plan, _ *web) {
	f.Size = cmp.Or(f.Size, 64<<20)
	f.spread(p, "huge", func(x *exchange) {
		s := x.stream(typeHTML, "", f.Size)
		line := []byte("<p>On and on and on it goes, and no end of it is in sight.</p>\n")
		for left := f.Size; left > 0 && s.err == nil; left -= int64(len(line)) {
			s.Write(line[:min(left, int64(len(line)))])
		}
		s.close()
	}, tooLarge(f.Size))
}

func (f GzipBomb) validate(Config) error { return f.check(f.Size) }

func (f GzipBomb) install(p *plan, _ *web) {
	const unit = 1 << 20
	f.Size = cmp.Or(f.Size, 1<<30)
	times := (f.Size + unit - 1) / unit
	member := gzipped(bytes.Repeat([]byte("<p>boom</p>\n    "), unit/16))
	f.spread(p, "bomb", func(x *exchange) {
		// A gzip body may be many members one after the other, so that one is
		// enough to make any number.
		s := x.stream(typeHTML, "Content-Encoding: gzip\r\n", times*int64(len(member)))
		for range times {
			if s.Write(member); s.err != nil {
				break
			}
		}
		s.close()
	}, tooLarge(times*unit))
}

func tooLarge(size int64) func(Crawl) verdict {
	return func(c Crawl) verdict {
		if size > c.BodyLimit {
			return verdict{outcomes: []string{OutcomeTooLarge}, status: http.StatusOK}
		}
		return ok("")
	}
}

// gzipped compresses in memory, where nothing can fail.
func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}
