package testweb

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// WrongType adds bodies that are not what their Content-Type says: HTML under three
// types that are not HTML, with links that must not be followed, and an image under HTML.
type WrongType struct{}

// Files adds files that are not HTML: PDF, PNG, ZIP, JSON.
type Files struct {
	Size int `yaml:"size"` // bytes of each. Zero means 262,144
}

// Encodings adds pages compressed with gzip, deflate, br and zstd, whether the
// client asked for it or not; each links to a page that nothing else links to.
type Encodings struct{}

func (WrongType) Kind() string { return "wrong_type" }
func (Files) Kind() string     { return "files" }
func (Encodings) Kind() string { return "encodings" }

const pngStart = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"

// bodyLeaf answers with a fixed body of any type, which holds no links to follow.
func bodyLeaf(uri, contentType, extra, body string) leaf {
	return leaf{
		uri:     uri,
		href:    uri,
		answer:  func(x *exchange) { x.reply(http.StatusOK, contentType, extra, body) },
		verdict: func(Crawl) verdict { return notHTML() },
	}
}

func (WrongType) validate(Config) error { return nil }

func (WrongType) install(p *plan, _ *web) {
	const bait = "/wrong-type/bait"
	page := simplePage("Not what it seems", anchors(bait))
	p.add(
		bodyLeaf("/wrong-type/bytes", "application/octet-stream", "", page),
		bodyLeaf("/wrong-type/text", typeText, "", page),
		bodyLeaf("/wrong-type/image", "image/png", "", page),
		pageLeaf(bait, "Bait").baited(),
	)
	l := bodyLeaf("/wrong-type/html", typeHTML, "", pngStart)
	l.verdict = func(Crawl) verdict { return ok("") }
	p.add(l)
}

func (f Files) validate(Config) error { return notNegative("size", f.Size) }

func (f Files) install(p *plan, _ *web) {
	f.Size = cmp.Or(f.Size, 256<<10)
	for _, file := range []struct{ name, contentType, start string }{
		{"report.pdf", "application/pdf", "%PDF-1.7\n"},
		{"picture.png", "image/png", pngStart},
		{"archive.zip", "application/zip", "PK\x03\x04"},
		{"data.json", "application/json", "{\"pad\":\""},
	} {
		uri := "/files/" + file.name
		p.add(leaf{
			uri:  uri,
			href: uri,
			answer: func(x *exchange) {
				s := x.stream(file.contentType, "", int64(max(f.Size, len(file.start))))
				s.Write([]byte(file.start))
				pad := []byte(strings.Repeat("0", 4096))
				for left := f.Size - len(file.start); left > 0 && s.err == nil; left -= len(pad) {
					s.Write(pad[:min(left, len(pad))])
				}
				s.close()
			},
			verdict: func(Crawl) verdict { return notHTML() },
		})
	}
}

func (Encodings) validate(Config) error { return nil }

func (Encodings) install(p *plan, _ *web) {
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		uri := "/encoding/" + coding
		title := "Packed with " + coding
		page := simplePage(title, anchors(uri+"/inside"))
		l := bodyLeaf(uri, typeHTML, "Content-Encoding: "+coding+"\r\n", string(encoded(coding, []byte(page))))
		l.verdict = func(Crawl) verdict { return ok(title) }
		l.links = follow(uri + "/inside")
		p.add(l, pageLeaf(uri+"/inside", "Inside "+coding))
	}
}

// encoded compresses in memory, where nothing can fail.
func encoded(coding string, b []byte) []byte {
	var out bytes.Buffer
	switch coding {
	case "gzip":
		return gzipped(b)
	case "deflate":
		z := zlib.NewWriter(&out)
		z.Write(b)
		z.Close()
	case "br":
		z := brotli.NewWriter(&out)
		z.Write(b)
		z.Close()
	case "zstd":
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err) // only wrong options are refused
		}
		z.Write(b)
		z.Close()
	}
	return out.Bytes()
}
