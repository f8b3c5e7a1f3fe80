package sitemap

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// readXML walks the raw tokens of a document: names are compared without their namespaces, since sites leave those out
// or get them wrong, but an element counts only in its place.
func readXML(in *bufio.Reader, fn func(*Entry) error) (Format, error) {
	bounded := &tokenReader{Reader: bufio.NewReaderSize(characters(in), 32<<10)}
	dec := xml.NewDecoder(bounded)
	dec.Strict = false
	dec.Entity = xml.HTMLEntity
	// characters has decoded it already
	dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	w := walker{fn: fn}
	for {
		token, err := dec.RawToken()
		bounded.begin()
		if errors.Is(err, io.EOF) {
			switch {
			case w.format == "":
				return "", fmt.Errorf("%w: no root element", ErrNotSitemap)
			case len(w.open) > 0:
				return w.format, fmt.Errorf("read sitemap: the file ends inside <%s>: %w", w.open[len(w.open)-1],
					io.ErrUnexpectedEOF)
			}
			return w.format, nil
		}
		if err != nil {
			return w.format, fmt.Errorf("read sitemap at byte %d: %w", dec.InputOffset(), err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			err = w.start(t)
		case xml.EndElement:
			err = w.end(t.Name.Local)
		case xml.CharData:
			w.text(t)
		}
		if err != nil {
			return w.format, err
		}
	}
}

// characters decodes a document as its XML declaration says. What is not a character of XML becomes another one: the
// decoder would refuse all that follows a single broken byte. An encoding that is not known counts as UTF-8, as does
// UTF-16: open has decoded it.
func characters(in *bufio.Reader) io.Reader {
	var r io.Reader = in
	head, _ := in.Peek(256)
	if m := declaredEncoding.FindSubmatch(head); m != nil {
		label := strings.ToLower(string(m[1]))
		if enc, _ := charset.Lookup(label); enc != nil && !strings.HasPrefix(label, "utf") {
			r = transform.NewReader(in, enc.NewDecoder())
		}
	}
	return transform.NewReader(r, runes.Map(func(c rune) rune {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0xFFFE || c == 0xFFFF {
			return ' '
		}
		return c
	}))
}

var declaredEncoding = regexp.MustCompile(`^<\?xml[^>]*?\sencoding\s*=\s*["']([^"'>]*)["']`)

// tokenReader fails when a single token is too long: the decoder would hold it all in memory.
type tokenReader struct {
	*bufio.Reader
	used int  // bytes of the token that is being read
	tag  bool // the token is a start or end tag
	last byte // the last byte that was read
}

// begin is called between two tokens. The decoder ends a text when it has read the < after it, which is the first byte
// of the next token.
func (t *tokenReader) begin() {
	t.used, t.tag = 0, false
	if t.last == '<' {
		t.used = 1
	}
}

// ReadByte is the method by which the decoder reads.
func (t *tokenReader) ReadByte() (byte, error) {
	switch {
	case t.used > maxToken:
		return 0, fmt.Errorf("%w: a token of more than %d bytes", ErrNotSitemap, maxToken)
	case t.tag && t.used > maxTag:
		return 0, fmt.Errorf("%w: a tag of more than %d bytes", ErrNotSitemap, maxTag)
	}
	c, err := t.Reader.ReadByte()
	if err != nil {
		return c, err
	}
	if t.used == 1 && t.last == '<' {
		t.tag = c != '!' && c != '?'
	}
	t.used++
	t.last = c
	return c, nil
}

// walker turns tokens into entries.
type walker struct {
	fn     func(*Entry) error
	format Format
	open   []string // names of the open elements
	item   int      // depth of the open item's element, or 0
	entry  Entry
	guid   string
	field  strings.Builder
}

// maxNesting bounds the stack; no sitemap comes near it.
const maxNesting = 64

func (w *walker) start(t xml.StartElement) error {
	name := strings.ToLower(t.Name.Local)
	if len(w.open) == 0 && w.format == "" {
		if err := w.root(name); err != nil {
			return err
		}
	}
	if len(w.open) == maxNesting {
		return fmt.Errorf("%w: nested more than %d deep", ErrNotSitemap, maxNesting)
	}
	w.open = append(w.open, name)
	w.field.Reset()
	if w.item == 0 && w.isItem(name) {
		w.item = len(w.open)
		w.entry = Entry{Priority: -1}
		w.guid = ""
		if name == "sitemap" {
			w.entry.Kind = Child
		}
		return nil
	}
	if w.item > 0 && name == "link" {
		w.link(t.Attr)
	}
	return nil
}

func (w *walker) root(name string) error {
	switch name {
	case "urlset":
		w.format = FormatURLSet
	case "sitemapindex":
		w.format = FormatIndex
	case "rss", "rdf":
		w.format = FormatRSS
	case "feed":
		w.format = FormatAtom
	default:
		return fmt.Errorf("%w: its root element is <%s>", ErrNotSitemap, name)
	}
	return nil
}

// isItem says whether an element holds one entry. A urlset inside an index, and the reverse, happens and is understood.
func (w *walker) isItem(name string) bool {
	switch w.format {
	case FormatURLSet, FormatIndex:
		return name == "url" || name == "sitemap"
	case FormatRSS:
		return name == "item"
	}
	return name == "entry"
}

// link reads a link element with attributes: an hreflang alternate of a urlset, or the address of an Atom entry.
func (w *walker) link(attrs []xml.Attr) {
	var rel, lang, href string
	for _, a := range attrs {
		switch strings.ToLower(a.Name.Local) {
		case "rel":
			rel = strings.ToLower(a.Value)
		case "hreflang":
			lang = strings.TrimSpace(a.Value)
		case "href":
			href = strings.TrimSpace(a.Value)
		}
	}
	if href == "" || len(href) > maxExtra {
		return
	}
	switch {
	case w.format == FormatAtom:
		if (rel == "" || rel == "alternate") && w.entry.Loc == "" {
			w.entry.Loc = href
		}
	case rel == "alternate" && lang != "" && len(w.entry.Alternates) < maxAlternates:
		w.entry.Alternates = append(w.entry.Alternates, Alternate{lang, href})
	}
}

// Bounds on what one entry may carry; the image extension allows 1,000 images.
const (
	maxAlternates = 1000
	maxImages     = 1000
	maxExtra      = 8 << 10 // bytes of one address of these
)

func (w *walker) text(data xml.CharData) {
	if w.item > 0 && w.field.Len()+len(data) <= maxToken {
		w.field.Write(data)
	}
}

func (w *walker) end(local string) error {
	name := strings.ToLower(local)
	// A closing tag that nothing opened is passed over; one that skips open elements closes them.
	at := len(w.open) - 1
	for at >= 0 && w.open[at] != name {
		at--
	}
	if at < 0 {
		return nil
	}
	depth := at + 1
	if w.item > 0 && depth == w.item+1 && depth == len(w.open) {
		w.set(name, strings.TrimSpace(w.field.String()))
	}
	if w.item > 0 && name == "loc" && at >= 1 && w.open[at-1] == "image" && len(w.entry.Images) < maxImages &&
		w.field.Len() <= maxExtra {
		w.entry.Images = append(w.entry.Images, strings.TrimSpace(w.field.String()))
	}
	w.open = w.open[:at]
	w.field.Reset()
	if w.item > 0 && depth <= w.item {
		w.item = 0
		return w.emit()
	}
	return nil
}

// set takes the text of a direct child of an item.
func (w *walker) set(name, value string) {
	e := &w.entry
	switch name {
	case "loc":
		if e.Loc == "" && w.format != FormatRSS {
			e.Loc = value
		}
	case "link":
		if e.Loc == "" && w.format == FormatRSS {
			e.Loc = value
		}
	case "guid":
		w.guid = value
	case "lastmod", "updated", "pubdate", "date", "modified":
		if t := parseTime(value); !t.IsZero() {
			e.LastMod = t
		}
	case "published":
		if t := parseTime(value); e.LastMod.IsZero() {
			e.LastMod = t
		}
	case "priority":
		if p, err := strconv.ParseFloat(value, 64); err == nil && p >= 0 && p <= 1 {
			e.Priority = p
		}
	}
}

func (w *walker) emit() error {
	if w.entry.Loc == "" && hasScheme([]byte(w.guid)) {
		w.entry.Loc = w.guid
	}
	if w.entry.Loc == "" {
		return nil
	}
	e := w.entry
	return w.fn(&e)
}
