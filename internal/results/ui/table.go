package ui

import (
	"html"
	"strconv"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// Table is the data of the template table: its first rows, and how many more there are.
type Table struct {
	Caption string
	Columns []Column
	Rows    [][]Cell
	Cut     int64  // rows that are not here
	More    string // where they are: a part of a sentence
	Live    bool   // it is replaced while people look at it, so that they cannot sort it

	bytes int  // approximate size of the rows in HTML
	full  bool // there is no space for more rows
}

// Column is the head of a column. Class is empty for text, "num" for numbers and "url" for addresses.
type Column struct{ Name, Class string }

// Limits of one table, so that a page stays small whatever it shows.
const (
	maxRows  = 100
	maxBytes = 100 << 10
)

// Add adds a row, or only counts it if the table is full. The rows are the first ones: after one that has no space, no
// other is added.
func (t *Table) Add(cells ...Cell) {
	for i := range cells {
		if !t.full {
			t.bytes += cells[i].size()
		}
	}
	if t.full = t.full || len(t.Rows) == maxRows || t.bytes > maxBytes; t.full {
		t.Cut++
		return
	}
	t.Rows = append(t.Rows, cells)
}

// Cell is a cell of a table. The functions below make cells.
type Cell struct {
	Kind string // "", "word", "whole", "link", "links", "inside", "number" or "badge"
	Text string
	Path string // of kind inside: the address on the same server
	Key  string // what the column is sorted by, if not the text
	Tone string // of a badge: good, info, warn, bad, or empty

	Anchors []Anchor // of kind links
	More    int64    // of kind links: how many are not shown
}

// Anchor is one of several addresses in a cell.
type Anchor struct {
	URL  string
	Text string // of the link; may be empty
	Path string // the address on the same server that it leads to, if not to URL
}

// size is the approximate size of the cell in HTML, in bytes.
func (c *Cell) size() int {
	n := 40 + written(shown(c.Text)) + written(c.Path)
	switch c.Kind {
	case "link":
		n += linkSize(c.Text)
	case "whole":
		n = 40 + written(show(c.Text, maxWhole))
	}
	for _, a := range c.Anchors {
		n += 80 + written(shown(a.URL)) + written(shown(a.Text)) + written(a.Path) + linkSize(a.URL)
	}
	return n
}

// written is how many bytes a text takes in HTML.
func written(text string) int { return len(html.EscapeString(text)) }

// linkSize is the size of a link in HTML without its text. Bytes beyond ASCII are escaped in it.
func linkSize(url string) int {
	if !IsLink(url) {
		return 0
	}
	n := 50 + written(url)
	for i := range len(url) {
		if url[i] >= utf8.RuneSelf {
			n += 2
		}
	}
	return n
}

// Text is a cell with any text.
func Text(text string) Cell { return Cell{Text: text} }

// Whole is a cell with a text that is shown whole, up to a length that only hostile sites have.
func Whole(text string) Cell { return Cell{Kind: "whole", Text: text} }

// Word is a cell with a short text that is not broken into lines.
func Word(text string) Cell { return Cell{Kind: "word", Text: text} }

// Link is a cell with an address.
func Link(url string) Cell { return Cell{Kind: "link", Text: url} }

// maxAnchors is how many addresses a cell shows.
const maxAnchors = 3

// Links is a cell with the first of several addresses, each with the text of its link, if there are texts. More is how
// many there are beside them.
func Links(urls, texts []string, more int64) Cell {
	c := Cell{Kind: "links", More: more}
	for i, url := range urls {
		if i == maxAnchors {
			c.More += int64(len(urls) - maxAnchors)
			break
		}
		a := Anchor{URL: url}
		if i < len(texts) {
			a.Text = texts[i]
		}
		c.Anchors = append(c.Anchors, a)
	}
	return c
}

// Inside is a cell with a text that leads to a page of the same server.
func Inside(text, path string) Cell { return Cell{Kind: "inside", Text: text, Path: path} }

// Number is a cell with a whole number.
func Number(n int64) Cell {
	return Cell{Kind: "number", Text: humanize.Comma(n), Key: strconv.FormatInt(n, 10)}
}

// Share is a cell with a part of a whole in percent.
func Share(part, whole int64) Cell {
	return Cell{Kind: "number", Text: Percent(float64(part), float64(whole)), Key: strconv.FormatInt(part, 10)}
}

// Bytes is a cell with a size.
func Bytes(n int64) Cell { return Cell{Kind: "number", Text: Size(n), Key: strconv.FormatInt(n, 10)} }

// Time is a cell with a duration in milliseconds.
func Time(ms int64) Cell {
	return Cell{Kind: "number", Text: Millis(float64(ms)), Key: strconv.FormatInt(ms, 10)}
}

// Badge is a cell with a badge; rank sorts it.
func Badge(text, tone string, rank int) Cell {
	return Cell{Kind: "badge", Text: text, Tone: tone, Key: strconv.Itoa(rank)}
}
