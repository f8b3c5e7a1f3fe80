package sitemap

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// ErrFull means that an entry would take the file over a limit of the protocol.
var ErrFull = errors.New("the sitemap file is full")

const (
	xmlHead   = `<?xml version="1.0" encoding="UTF-8"?>` + "\n<!-- Mapwright"
	headEnd   = " -->\n"
	nsSitemap = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`
	nsXHTML   = ` xmlns:xhtml="http://www.w3.org/1999/xhtml"`
	nsImage   = ` xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"`
	nsNews    = ` xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"`
	nsVideo   = ` xmlns:video="http://www.google.com/schemas/sitemap-video/1.1"`
	urlsetEnd = "</urlset>\n"
	indexEnd  = "</sitemapindex>\n"
)

// What is written of one entry; the image extension allows 1,000 images.
const (
	maxAlternates = 1000
	maxImages     = 1000
)

// Options choose what a URLSet may hold.
type Options struct {
	Alternates bool // write the language alternates
	Images     bool // write the images
	Videos     bool // write the films
	News       bool // write what is news
	Priorities bool // write the priorities
	MaxURLs    int  // zero means MaxURLs of the protocol
	MaxBytes   int  // zero means MaxBytes of the protocol
	// Label is written into the head of the file, where the function Label finds it. It may have letters, digits, dots,
	// hyphens, underscores, tildes and single spaces between them.
	Label string
}

// URLSet writes one urlset. Nothing is written before the first entry, since an empty urlset is not valid.
type URLSet struct {
	w     io.Writer
	o     Options
	urls  int
	news  int // urls with news
	bytes int
	buf   []byte
}

// NewURLSet writes to w, which the caller buffers.
func NewURLSet(w io.Writer, o Options) *URLSet {
	o.MaxURLs = cmp.Or(o.MaxURLs, MaxURLs)
	o.MaxBytes = cmp.Or(o.MaxBytes, MaxBytes)
	return &URLSet{w: w, o: o}
}

// Add writes an entry, or returns ErrFull and has written nothing.
func (s *URLSet) Add(e *Entry) error {
	s.buf = s.buf[:0]
	if s.urls == 0 {
		s.buf = s.head(s.buf)
	}
	s.buf = s.append(s.buf, e)
	hasNews := s.o.News && e.News != nil
	if s.urls == s.o.MaxURLs || hasNews && s.news == maxNews || s.bytes+len(s.buf)+len(urlsetEnd) > s.o.MaxBytes {
		return ErrFull
	}
	n, err := s.w.Write(s.buf)
	s.bytes += n
	s.urls++
	if hasNews {
		s.news++
	}
	return err
}

// Close ends the document. It does not close the writer.
func (s *URLSet) Close() error {
	if s.urls == 0 {
		return nil
	}
	_, err := io.WriteString(s.w, urlsetEnd)
	return err
}

func (s *URLSet) head(b []byte) []byte {
	b = append(appendHead(b, s.o.Label), "<urlset "+nsSitemap...)
	if s.o.Alternates {
		b = append(b, nsXHTML...)
	}
	if s.o.Images {
		b = append(b, nsImage...)
	}
	if s.o.News {
		b = append(b, nsNews...)
	}
	if s.o.Videos {
		b = append(b, nsVideo...)
	}
	return append(b, ">\n"...)
}

func (s *URLSet) append(b []byte, e *Entry) []byte {
	b = append(b, "  <url>\n"...)
	b = appendElement(b, "    <loc>", e.Loc, "</loc>\n")
	b = appendTime(b, "    ", e.LastMod)
	if e.Frequency != "" {
		b = append(b, "    <changefreq>"+e.Frequency+"</changefreq>\n"...)
	}
	if s.o.Priorities && e.Priority >= 0 {
		b = strconv.AppendFloat(append(b, "    <priority>"...), e.Priority, 'f', -1, 64)
		b = append(b, "</priority>\n"...)
	}
	if s.o.Alternates {
		for _, a := range e.Alternates[:min(len(e.Alternates), maxAlternates)] {
			if isLanguage(a.Lang) && a.Href != "" {
				b = append(b, `    <xhtml:link rel="alternate" hreflang="`+a.Lang+`"`...)
				b = appendElement(b, ` href="`, a.Href, "\"/>\n")
			}
		}
	}
	if s.o.Images {
		for _, url := range e.Images[:min(len(e.Images), maxImages)] {
			if url != "" {
				b = appendElement(b, "    <image:image><image:loc>", url, "</image:loc></image:image>\n")
			}
		}
	}
	if s.o.News && e.News != nil {
		b = appendNews(b, e.News)
	}
	if s.o.Videos && e.Video != nil {
		b = appendVideo(b, e.Video)
	}
	return append(b, "  </url>\n"...)
}

// Limits of the extensions: articles in a file, and characters of a film's texts.
const (
	maxNews             = 1000
	maxVideoTitle       = 100
	maxVideoDescription = 2048
)

// appendNews writes an article, in the order of the extension's schema.
func appendNews(b []byte, n *News) []byte {
	b = append(b, "    <news:news>\n      <news:publication>"...)
	b = appendText(b, "<news:name>", n.Publication, "</news:name>")
	b = appendText(b, "<news:language>", n.Language, "</news:language></news:publication>\n")
	b = n.At.UTC().AppendFormat(append(b, "      <news:publication_date>"...), "2006-01-02T15:04:05Z")
	b = appendText(append(b, "</news:publication_date>\n"...), "      <news:title>", n.Title, "</news:title>\n")
	return append(b, "    </news:news>\n"...)
}

// appendVideo writes a film, in the order of the extension's schema.
func appendVideo(b []byte, v *Video) []byte {
	b = append(b, "    <video:video>\n"...)
	b = appendElement(b, "      <video:thumbnail_loc>", v.Thumbnail, "</video:thumbnail_loc>\n")
	b = appendText(b, "      <video:title>", cutRunes(v.Title, maxVideoTitle), "</video:title>\n")
	b = appendText(b, "      <video:description>", cutRunes(v.Description, maxVideoDescription),
		"</video:description>\n")
	if v.Content != "" {
		b = appendElement(b, "      <video:content_loc>", v.Content, "</video:content_loc>\n")
	}
	if v.Player != "" {
		b = appendElement(b, "      <video:player_loc>", v.Player, "</video:player_loc>\n")
	}
	return append(b, "    </video:video>\n"...)
}

// cutRunes returns at most n characters of a text.
func cutRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// appendText writes a text between two pieces of markup. Characters that XML cannot express are replaced.
func appendText(b []byte, open, text, end string) []byte {
	buf := bytes.NewBuffer(append(b, open...))
	_ = xml.EscapeText(buf, []byte(text)) // a Buffer returns no error
	return append(buf.Bytes(), end...)
}

// isLanguage says whether a text is a language tag as the schema of XHTML has it, x-default among them. Pages also
// carry others, such as en_US, which search engines do not understand either.
func isLanguage(tag string) bool {
	parts := strings.Split(tag, "-")
	for i, part := range parts {
		if len(part) < 1 || len(part) > 8 {
			return false
		}
		for _, c := range []byte(part) {
			letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
			if !letter && (!digit || i == 0) {
				return false
			}
		}
	}
	return true
}

// Index writes one index over sitemaps. Nothing is written before the first entry, since an empty index is not valid.
type Index struct {
	w       io.Writer
	o       Options
	entries int
	bytes   int
	buf     []byte
}

// NewIndex writes to w, which the caller buffers. It uses only the limits and the label of the options.
func NewIndex(w io.Writer, o Options) *Index {
	o.MaxURLs, o.MaxBytes = cmp.Or(o.MaxURLs, MaxURLs), cmp.Or(o.MaxBytes, MaxBytes)
	return &Index{w: w, o: o}
}

// Add writes Loc and LastMod of a sitemap, or returns ErrFull and has written nothing.
func (x *Index) Add(e *Entry) error {
	b := x.buf[:0]
	if x.entries == 0 {
		b = append(appendHead(b, x.o.Label), "<sitemapindex "+nsSitemap+">\n"...)
	}
	b = appendElement(append(b, "  <sitemap>\n"...), "    <loc>", e.Loc, "</loc>\n")
	b = append(appendTime(b, "    ", e.LastMod), "  </sitemap>\n"...)
	if x.buf = b; x.entries == x.o.MaxURLs || x.bytes+len(b)+len(indexEnd) > x.o.MaxBytes {
		return ErrFull
	}
	n, err := x.w.Write(b)
	x.bytes += n
	x.entries++
	return err
}

// Close ends the document. It does not close the writer.
func (x *Index) Close() error {
	if x.entries == 0 {
		return nil
	}
	_, err := io.WriteString(x.w, indexEnd)
	return err
}

// appendHead writes what begins a file, with a label if there is one. A comment must not have two hyphens in a row.
func appendHead(b []byte, label string) []byte {
	b = append(b, xmlHead...)
	if label != "" {
		b = append(append(b, ' '), strings.ReplaceAll(label, "--", "-=")...)
	}
	return append(b, headEnd...)
}

// Label returns the label of a file, of which the beginning is given, and true if this package wrote the file.
func Label(head []byte) (string, bool) {
	rest, ok := bytes.CutPrefix(head, []byte(xmlHead))
	line, _, ended := bytes.Cut(rest, []byte(headEnd))
	if !ok || !ended || len(line) > 0 && line[0] != ' ' || bytes.IndexByte(line, '\n') >= 0 {
		return "", false
	}
	return strings.ReplaceAll(strings.TrimPrefix(string(line), " "), "-=", "--"), true
}

// appendTime writes a lastmod, if there is one that the schema can express.
func appendTime(b []byte, indent string, t time.Time) []byte {
	if year := t.UTC().Year(); t.IsZero() || year < 1 || year > 9999 {
		return b
	}
	b = append(b, indent+"<lastmod>"...)
	b = t.UTC().AppendFormat(b, "2006-01-02T15:04:05Z")
	return append(b, "</lastmod>\n"...)
}

// appendElement writes an address between two pieces of markup.
func appendElement(b []byte, open, url, end string) []byte {
	b = append(b, open...)
	b = appendURL(b, url)
	return append(b, end...)
}
