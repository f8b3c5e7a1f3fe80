package page

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/mapwright/mapwright/parser"
)

// Facts are what a fetch and a parse found of one URL. Zero means not known.
//
// This struct is the one place where a fact is defined. Its tag is the name in sitemap.jsonl and sitemap.csv ("-" for
// what is not written there); the comment above it is its row in docs/sitemap-jsonl.md: the meaning, and after
// "Absent:" when it is left out. The tag schema says in which form a text is, if it is not any text. [Facts.byTag]
// gives it a number in the store. 'make docs' writes the documents again.
type Facts struct {
	Error string `json:"-"` // why it failed, as a text for users; Bound cuts it

	// where it redirects to; canonical if it is an http(s) URL, else as the server wrote it. If that has more than
	// 8,192 bytes: the text `too long, `, its length, ` bytes: ` and its first 256 bytes, which is no URL. Absent: no
	// redirect
	RedirectTo string `json:"redirect_to,omitempty"`
	// from the start of the request to the last byte read, connecting included. Absent: there was no answer
	ResponseTime *Millis `json:"response_time_ms,omitempty"`
	// the Content-Type header; without one, what the body looks like. The first 256 bytes and `…` if it is longer.
	// Absent: no answer, or nothing known
	ContentType string `json:"content_type,omitempty"`
	// bytes of the body after decompression; of a body that was not read, the Content-Length header. Absent: not known
	ContentLength *int64 `json:"content_length,omitempty"`
	// xxhash64 of the body after decompression, 16 hexadecimal digits. Absent: the body was not read as a page
	ContentHash *Hash `json:"content_hash,omitempty"`
	// hash of the text that a reader sees, the description and the alternative texts of images, 16 hexadecimal digits.
	// Markup, scripts and addresses do not count. Absent: the body was not read as a page
	TextHash *Hash `json:"text_hash,omitempty"`

	// text of the first title element. Absent: the page has none
	Title string `json:"title,omitempty"`
	// content of the first meta description. Absent: the page has none
	Description string `json:"description,omitempty"`
	// text of the first h1 element. Absent: the page has none
	H1 string `json:"h1,omitempty"`
	// how many h1 elements have text, if there are several. Absent: one or none
	H1Count *int `json:"h1_count,omitempty"`
	// what the page names as its canonical address, in the page or the Link header. Absent: it names none
	Canonical string `json:"canonical_url,omitempty" schema:"url"`
	// `lang` of the html element, else Content-Language. Absent: the page does not say
	Language string `json:"language,omitempty"`
	// the page's versions in other languages. Absent: none
	Hreflang []Alternate `json:"hreflang,omitempty"`
	// directives of meta robots and X-Robots-Tag that concern this crawler, lower case, each once. Absent: none
	RobotsMeta string `json:"robots_meta,omitempty"`
	NoIndex    bool   `json:"-"`
	// every `@type` in JSON-LD. Absent: none
	JSONLDTypes []string `json:"json_ld_types,omitempty"`
	// `og:` properties, the first value of each. Absent: none
	OpenGraph map[string]string `json:"open_graph,omitempty"`
	// addresses of scripts, style sheets, frames and images that a page with an https URL loads over http, the first
	// 10. Absent: none
	MixedContent []string `json:"mixed_content,omitempty" schema:"url"`
	// words in the text. Absent: the page was not read
	WordCount *int `json:"word_count,omitempty"`
	// links on the page, images not counted. Absent: the page was not read
	LinkCount *int `json:"link_count,omitempty"`

	// from the Last-Modified header, else what the page says of itself, else what the sitemap that lists it says. Never
	// the time of the crawl: a header that names the time of the answer or a later one, or another time while the text
	// stayed the same, does not count. Absent: no source names a time
	LastModified Time `json:"last_modified,omitzero"`
	// when the page says that it was published: `article:published_time`. Absent: it does not say
	PublishedAt Time `json:"published_at,omitzero"`
	// the ETag header. Absent: none, or more than 1,024 bytes
	ETag string `json:"etag,omitempty"`

	Robots Robots `json:"-"` // Line has it in another form

	// what each `--extract` selector found: a text, or a list where there was more than one. Absent: none asked for,
	// none found, or `error` says why the selectors could not be run
	Extracted Extracted `json:"extracted,omitempty"`
	// the page's images, each once, with `--images`. Absent: none asked for, or none there
	Images []string `json:"images,omitempty" schema:"url"`

	Links []Link `json:"-"` // every link of the page, when asked for: links.jsonl
	Trap  string `json:"-"` // which trap, for the outcome Trap

	// What a later visit needs.
	LastModifiedHeader string `json:"-"` // as the server wrote it; empty if it is too long
	// the header named different times for the same text, so that it does not say when the text changed
	NotLastMod bool `json:"-"`
	// what the headers X-Robots-Tag and Link say, as the server wrote it; package recrawl makes it
	HeaderRules string `json:"-"`
	// that of the text; nil in the first crawl without --near-duplicates, which does not compute it
	SimHash *Hash `json:"-"`
	// where --warc has the body of the answer; package warc makes it
	Archived string `json:"-"`
	// LeftOut is which links of the page were not followed, and by which rules; package scope makes it.
	LeftOut []uint64 `json:"-"`
	// IDs are the hashes of parser.Page.IDs, each as the difference to the one before, after a 1; nil if they are not
	// known.
	IDs []uint64 `json:"-"`
	// the files that the page loads, and those that it links to and --skip-extensions leaves out, each once, if they
	// are checked
	Assets []string `json:"-"`
	// visits in a row that found a text that differs in little from the one before; nil means 0
	SmallChanges *int `json:"-"`
}

// Volatile reports whether the text differs in little from the one before at every visit, three times in a row or more.
func (f *Facts) Volatile() bool { return f.SmallChanges != nil && *f.SmallChanges >= 3 }

// TakePage copies what a page that was read at the given time says of itself. The page's texts share one piece of
// memory, which is free again when the facts are encoded.
func (f *Facts) TakePage(pg *parser.Page, at time.Time) {
	f.Title, f.Description, f.H1 = pg.Title, pg.Description, pg.H1
	f.Canonical, f.Language = pg.Canonical, pg.Language
	f.RobotsMeta = pg.RobotsMeta
	f.NoIndex = pg.NoIndex || !pg.UnavailableAfter.IsZero() && at.After(pg.UnavailableAfter)
	f.JSONLDTypes, f.MixedContent = pg.JSONLDTypes, pg.Insecure
	if pg.H1Count > 1 {
		f.H1Count = new(pg.H1Count)
	}
	f.WordCount, f.LinkCount, f.ContentHash = new(pg.WordCount), new(pg.LinkCount), new(Hash(pg.ContentHash))
	f.TextHash = new(Hash(pg.VisibleHash))
	for _, h := range pg.Hreflang {
		f.Hreflang = append(f.Hreflang, Alternate{Lang: h.Lang, URL: h.URL.String()})
	}
	for _, p := range pg.OpenGraph {
		f.AddOpenGraph(p.Name, p.Content)
	}
	for _, x := range pg.Extracted {
		for _, v := range x.Values {
			f.AddExtracted(x.Name, v)
		}
	}
	if pg.IDs != nil {
		f.IDs = append(make([]uint64, 0, len(pg.IDs)+1), 1)
		last := uint32(0)
		for _, id := range pg.IDs {
			f.IDs = append(f.IDs, uint64(id-last))
			last = id
		}
	}
	f.PublishedAt.Time = pg.Published
	if f.LastModified.IsZero() {
		f.LastModified.Time = pg.Modified
	}
}

// byTag are the facts by their numbers in the store: append, never renumber.
func (f *Facts) byTag() [39]any {
	return [...]any{
		1: &f.Error, 2: &f.RedirectTo, 3: &f.ContentType, 4: &f.ContentLength, 5: &f.ContentHash, 6: &f.ResponseTime,
		7: &f.Title, 8: &f.Description, 9: &f.H1,
		10: &f.Canonical, 11: &f.Language, 12: &f.Hreflang, 13: &f.RobotsMeta, 14: &f.NoIndex, 15: &f.JSONLDTypes,
		16: &f.OpenGraph, 17: &f.WordCount,
		18: &f.LinkCount, 19: &f.LastModified, 20: &f.ETag, 21: &f.Robots, 22: &f.Extracted, 23: &f.Images,
		24: &f.Links, 25: &f.Trap,
		26: &f.TextHash, 27: &f.LastModifiedHeader, 28: &f.NotLastMod, 29: &f.HeaderRules, 30: &f.SimHash,
		31: &f.SmallChanges, 32: &f.H1Count, 33: &f.MixedContent, 34: &f.LeftOut, 35: &f.Archived,
		36: &f.IDs, 37: &f.Assets, 38: &f.PublishedAt,
	}
}

// Alternate is one hreflang link.
type Alternate struct {
	Lang string `json:"lang"`
	URL  string `json:"url"`
}

// AddOpenGraph adds a property, unless there is one of that name.
func (f *Facts) AddOpenGraph(name, value string) {
	if f.OpenGraph == nil {
		f.OpenGraph = map[string]string{}
	}
	if _, taken := f.OpenGraph[name]; !taken {
		f.OpenGraph[name] = value
	}
}

// AddExtracted adds a value that the selector of a name found.
func (f *Facts) AddExtracted(name, value string) {
	if f.Extracted == nil {
		f.Extracted = Extracted{}
	}
	f.Extracted.add(name, value)
}

// Length is a number of bytes, or nil if it is negative, which means that it is not known.
func Length(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// Extracted are the values that selectors found, by the selectors' names: a string for one value, a []string for
// several.
type Extracted map[string]any

func (e Extracted) add(name, value string) {
	switch had := e[name].(type) {
	case nil:
		e[name] = value
	case string:
		e[name] = []string{had, value}
	case []string:
		e[name] = append(had, value)
	}
}

// Values are what the selectors of a name found, in the order of the page.
func (e Extracted) Values(name string) []string {
	switch found := e[name].(type) {
	case string:
		return []string{found}
	case []string:
		return found
	}
	return nil
}

// Link is one edge of the link graph.
type Link struct {
	To, Rel, Text string
	Fragment      string // what follows the # of its address, if fragments are checked
	NoFollow      bool
}

// Robots is the evidence for what robots.txt says of a URL.
type Robots struct {
	Checked    bool
	Allowed    bool
	Rule       string // as written in the file; empty if none matched
	CrawlDelay time.Duration
	Low        bool // robots.txt could not be fetched
	CheckedAt  time.Time
}

// Forbidden says of a URL that robots.txt does not allow it, and what to do.
func (r *Robots) Forbidden(url string) string {
	if r.Low {
		return fmt.Sprintf("%s was not fetched: its robots.txt could not be fetched, and --robots-strict treats that "+
			"as a prohibition", url)
	}
	return fmt.Sprintf("%s was not fetched: robots.txt does not allow it (rule %q); 'mapwright robots %s' explains, "+
		"and --ignore-robots fetches it if the site is yours", url, r.Rule, url)
}

// Time is a moment as sitemap.jsonl writes it: RFC 3339, UTC, milliseconds.
type Time struct{ time.Time }

// MarshalJSON writes the one form.
func (t Time) MarshalJSON() ([]byte, error) { return append(t.appendText([]byte{'"'}), '"'), nil }

func (t Time) appendText(b []byte) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339) // which package time writes faster than other forms; it ends in Z
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// Millis is a duration that JSON has in whole milliseconds, and the store in microseconds.
type Millis time.Duration

// MarshalJSON writes milliseconds.
func (m Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(m).Milliseconds(), 10), nil
}

// UnmarshalJSON reads milliseconds.
func (m *Millis) UnmarshalJSON(text []byte) error {
	var n int64
	err := json.Unmarshal(text, &n)
	*m = Millis(time.Duration(n) * time.Millisecond)
	return err
}

// Hash is the hash of a body or a text. JSON has it as 16 hexadecimal digits.
type Hash uint64

func (h Hash) String() string {
	return string(h.appendText(make([]byte, 0, 16)))
}

func (h Hash) appendText(b []byte) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[h>>shift&15])
	}
	return b
}

// MarshalText writes the digits.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads the digits.
func (h *Hash) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*h = Hash(n)
	return err
}
