package parser

import (
	"slices"
	"time"
)

// Version changes whenever the same page may give other facts, among them its hashes, or
// other links. What was read by another version cannot be compared.
const Version = 5

// A Page is what Parse found. The zero value is ready for use; one that was used
// must not be copied. See the package documentation for how long its parts are
// valid.
type Page struct {
	// Title is the text of the first title element, at most 2,048 bytes.
	Title string
	// Description is the content of the first meta description that has one,
	// at most 4,096 bytes.
	Description string
	// H1 is the text of the first h1 element that has any, at most 2,048 bytes.
	H1 string
	// H1Count is the number of h1 elements that have text.
	H1Count int
	// Insecure are the addresses of scripts, style sheets, frames and images that a page
	// with an https URL loads over http: the first of them, each once, 10 at most.
	Insecure []string
	// Canonical is the address that the page gives as its own: that of the
	// first link element with rel=canonical, or without one of the first such
	// Link header field. It is empty if that is no http or https URL.
	Canonical string
	// Language is the lang attribute of the html element, else what meta or
	// header field Content-Language say if that is one language.
	Language string
	// Hreflang lists the page's versions in other languages, 256 at most.
	Hreflang []Hreflang
	// RobotsMeta lists the robots directives for everyone and for our product
	// token, from meta elements and X-Robots-Tag, in lower case, each once,
	// separated by ", ".
	RobotsMeta string
	// NoIndex and NoFollow are the sum of these directives. The most
	// restrictive one holds.
	NoIndex, NoFollow bool
	// UnavailableAfter is when the directives say that the page should no longer be listed, or zero. If there are
	// several dates, it is the earliest. A date that is not in the form of RFC 822, RFC 850 or ISO 8601 is ignored.
	UnavailableAfter time.Time
	// JSONLDTypes are the distinct values of @type in the page's JSON-LD, at any
	// depth, in order of appearance, 64 at most.
	JSONLDTypes []string
	// OpenGraph lists the page's og: properties in order, 64 at most.
	OpenGraph []Property
	// WordCount is the number of words in the text; the package documentation
	// says what a word is.
	WordCount int
	// ContentHash is the xxhash64 of the body.
	ContentHash uint64
	// TextHash is a hash of what a reader sees: the text, the description, the alternative texts of images, the
	// addresses of images, films, sounds and frames. Whole numbers of 1, 2 and 4 digits, fractions such as 0.034, dates
	// such as 31.12.2026 and numbers of the page's URL do not count; nor do addresses of links, scripts, styles and
	// templates. The data of Next.js pages counts if links are taken from it. Pages that differ only in their URLs,
	// dates and times have the same hash.
	TextHash uint64
	// WordHash is like TextHash, without any numbers.
	WordHash uint64
	// VisibleHash is a hash of the text that a reader sees, with all numbers, of
	// the description and the alternative texts of images. It tells whether the text
	// of one URL changed. Markup and the addresses of what is shown do not count.
	VisibleHash uint64
	// IDs are hashes of the names in the page to which a fragment of a URL can lead: ids of elements, and names of a
	// elements. They are in order, each once. It is nil unless Options.IDs asks for them, and if there are more than
	// 10,000.
	IDs []uint32
	// SimHash is 0 unless Options.SimHash asks for it. Texts of a hundred words or more
	// that differ in little have values that differ in few bits ([Distance]). Words with
	// a digit do not count.
	SimHash uint64
	// Modified is when the page says it last changed, or zero: from
	// article:modified_time, else og:updated_time, else the first dateModified
	// in JSON-LD, else a last-modified meta element.
	Modified time.Time
	// Published is the first article:published_time of the page that is a date, or zero.
	Published time.Time
	// Base is what links resolve against.
	Base URL
	// Links are the links found, in order.
	Links []Link
	// LinkCount is the number of links that the page has, without images and including those that were not kept.
	LinkCount int
	// Truncated tells that the page has more links than were kept.
	Truncated bool
	// Extracted has one entry for each of Options.Extract, in that order.
	Extracted []Extraction

	walker walker
}

// A Property is a named value.
type Property struct{ Name, Content string }

// A Hreflang is a version of the page for a language or region.
type Hreflang struct {
	Lang string
	URL  URL
}

// URLText returns the canonical text of the i-th link's URL, empty if it has
// none. Unlike the link's URL it is valid until the next Parse only. It is meant
// for hashing, and must not be changed.
func (pg *Page) URLText(i int) []byte {
	return pg.walker.links[i].url.of(pg.walker.arena)
}

// Bounds of facts, in bytes or entries.
const (
	maxTitle       = 2048
	maxDescription = 4096
	maxH1          = 2048
	maxLanguage    = 64
	maxHreflang    = 256
	maxRobots      = 1024
	maxDirectives  = 128
	maxTypes       = 64
	maxType        = 256
	maxProperties  = 64
	maxProperty    = 1024
	maxDates       = 32 // that are looked at
	maxInsecure    = 10
	maxLoaded      = 1000 // addresses of what a page loads that are looked at
	maxIDs         = 10_000
)

// How much a Page keeps between two parses: bytes of the arena, and links. About one page in a thousand needs more;
// without these bounds every worker would keep that much for ever.
const (
	keepArena = 1 << 20
	keepLinks = 4096
)

// facts are the facts of a Page, as spans of the arena and indexes of links.
type facts struct {
	title, description, h1, language span
	titleSet                         bool
	h1Count                          int
	insecure                         []string
	loaded                           int // addresses that were resolved for it
	ids                              []uint32
	languageRank                     uint8 // how good the source of language is
	canonical                        int   // -1 if there is none
	hreflang                         []hreflangRecord
	openGraph                        []propertyRecord
	types                            []span
	robots                           robots
	modified, published              time.Time
	modifiedRank                     uint8 // how good the source of modified is
	dates                            int   // that were looked at for modified and published
}

type hreflangRecord struct {
	lang span
	link int
}

type propertyRecord struct{ name, content span }

// finish makes the Page from what was found. The arena becomes one string that
// all the others are parts of.
func (w *walker) finish(pg *Page) {
	f := &w.facts
	robotsMeta := w.keep(f.robots.text)
	text := string(w.arena)

	pg.Title = f.title.in(text)
	pg.Description = f.description.in(text)
	pg.H1, pg.H1Count, pg.Insecure = f.h1.in(text), f.h1Count, f.insecure
	pg.Language = f.language.in(text)
	pg.RobotsMeta = robotsMeta.in(text)
	pg.NoIndex, pg.NoFollow = f.robots.noIndex, f.robots.noFollow
	pg.UnavailableAfter = f.robots.expires
	pg.WordCount = w.texts.words
	pg.TextHash, pg.WordHash, pg.VisibleHash = w.texts.text(), w.texts.withoutNumbers(), w.texts.visible()
	pg.SimHash = 0
	if w.texts.similar.on {
		pg.SimHash = w.texts.similar.sum()
	}
	if pg.IDs = nil; w.parser.opts.IDs && len(f.ids) <= maxIDs {
		slices.Sort(f.ids)
		f.ids = slices.Compact(f.ids)
		pg.IDs = append([]uint32{}, f.ids...)
	}
	pg.Modified, pg.Published = f.modified, f.published
	pg.Base = w.base
	pg.LinkCount, pg.Truncated = w.linkCount, w.truncated

	if cap(pg.Links) > keepLinks && len(w.links) <= keepLinks {
		pg.Links = nil
	}
	n := len(w.links)
	if n < len(pg.Links) {
		clear(pg.Links[n:]) // strings of the page before
	}
	pg.Links = slices.Grow(pg.Links[:0], n)[:n]
	for i := range w.links {
		w.links[i].link(&pg.Links[i], text)
	}
	pg.Canonical = ""
	if f.canonical >= 0 {
		pg.Canonical = pg.Links[f.canonical].URL.String()
	}
	pg.Hreflang = pg.Hreflang[:0]
	for _, h := range f.hreflang {
		if u := pg.Links[h.link].URL; !u.IsZero() {
			pg.Hreflang = append(pg.Hreflang, Hreflang{Lang: h.lang.in(text), URL: u})
		}
	}
	pg.OpenGraph = pg.OpenGraph[:0]
	for _, p := range f.openGraph {
		pg.OpenGraph = append(pg.OpenGraph, Property{p.name.in(text), p.content.in(text)})
	}
	pg.JSONLDTypes = pg.JSONLDTypes[:0]
	for _, t := range f.types {
		pg.JSONLDTypes = append(pg.JSONLDTypes, t.in(text))
	}
	// The caller's buffers are its own again.
	w.parser, w.in = nil, Input{}
	w.scanner, w.json.b, w.texts.href = scanner{}, nil, nil
}
