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
	tokens := &tokenReader{Reader: bufio.NewReaderSize(characters(in), 32<<10)}
	dec := xml.NewDecoder(tokens)
	dec.Strict = false
	dec.Entity = xml.HTMLEntity
	// characters has decoded it already
	dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	w := walker{fn: fn}
	for {
		token, err := dec.RawToken()
		cut := tokens.isCut
		tokens.begin()
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
			return w.format, fmt.Errorf("read sitemap at byte %d: %w", dec.InputOffset()+tokens.skipped, err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			err = w.start(t, cut)
		case xml.EndElement:
			err = w.end(t.Name.Local)
		case xml.CharData:
			w.text(t, cut)
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

// walker turns tokens into entries.
type walker struct {
	fn     func(*Entry) error
	format Format
	open   []string // names of the open elements
	item   int      // depth of the open item's element, or 0
	entry  Entry
	guid   string
	field  strings.Builder
	cut    bool // the text of the field is longer
}

// maxNesting bounds the stack; no sitemap comes near it.
const maxNesting = 64

func (w *walker) start(t xml.StartElement, cut bool) error {
	name := fold(t.Name.Local)
	if len(w.open) == 0 && w.format == "" {
		if err := w.root(name); err != nil {
			return err
		}
	}
	if len(w.open) == maxNesting {
		return fmt.Errorf("%w: nested more than %d deep", ErrNotSitemap, maxNesting)
	}
	w.open = append(w.open, name)
	w.resetField()
	if w.item == 0 && w.isItem(name) {
		w.item = len(w.open)
		w.entry = Entry{Priority: -1}
		w.guid = ""
		if name == "sitemap" {
			w.entry.Kind = Child
		}
		return nil
	}
	if w.item > 0 && name == "link" && w.format == FormatAtom && w.entry.Loc == "" {
		w.entry.Loc, w.entry.Cut = address(t.Attr), cut
	}
	return nil
}

// fold returns the name of an element as it is compared and kept.
func fold(name string) string {
	if len(name) > maxName {
		name = strings.Clone(name[:maxName]) // otherwise the whole name stays in memory
	}
	return strings.ToLower(name)
}

// maxName is how many bytes of a name are kept; the names that matter are far shorter.
const maxName = 64

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

// address returns what a link element of an Atom entry points to, or "" if that is not the entry's page.
func address(attrs []xml.Attr) string {
	var rel, href string
	for _, a := range attrs {
		switch strings.ToLower(a.Name.Local) {
		case "rel":
			rel = strings.ToLower(a.Value)
		case "href":
			href = strings.TrimSpace(a.Value)
		}
	}
	if rel != "" && rel != "alternate" {
		return ""
	}
	return href
}

// text takes a text of an item's child. It may come in parts, and is cut like one that comes whole.
func (w *walker) text(data xml.CharData, cut bool) {
	if w.item == 0 || len(w.open) != w.item+1 {
		return
	}
	if room := maxHeld - w.field.Len(); len(data) > room {
		data, cut = data[:room], true
	}
	w.field.Write(data)
	w.cut = w.cut || cut
}

func (w *walker) resetField() {
	w.field.Reset()
	w.cut = false
}

func (w *walker) end(local string) error {
	name := fold(local)
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
	w.open = w.open[:at]
	w.resetField()
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
			e.Loc, e.Cut = value, w.cut
		}
	case "link":
		if e.Loc == "" && w.format == FormatRSS {
			e.Loc, e.Cut = value, w.cut
		}
	case "guid":
		if !w.cut {
			w.guid = value
		}
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
