package sitemap

import (
	"strings"
	"time"
)

// Limits of the protocol, for one file.
const (
	MaxURLs  = 50_000
	MaxBytes = 50 << 20 // uncompressed
)

// Kind says what an entry points to.
type Kind uint8

// An entry points to a page, or to another sitemap.
const (
	Page Kind = iota
	Child
)

// Entry is one url of a urlset, one sitemap of an index, one item of a feed, or one line of a text file.
type Entry struct {
	Kind     Kind
	Loc      string // as written, trimmed
	Cut      bool   // Loc is the beginning of an address that has more than 8 KiB in the file
	LastMod  time.Time
	Priority float64 // 0 to 1; negative if the file gives none

	// These are to write; Read does not give them.
	Frequency  string
	Alternates []Alternate
	Images     []string
	Video      *Video
	News       *News
}

// Video is a film on a page. All fields but one of Content and Player are required.
type Video struct {
	Thumbnail, Title, Description string
	Content, Player               string // address of the film, or of a page with nothing but a player
}

// News says that a page is an article of a publication. All fields are required.
type News struct {
	Publication, Language, Title string
	At                           time.Time // of its publication
}

// Alternate is the same page in another language.
type Alternate struct{ Lang, Href string }

// parseTime reads the W3C date forms that sitemaps use, and the forms of feeds. The zero time means that the text is no
// date.
func parseTime(text string) time.Time {
	text = strings.TrimSpace(text)
	if len(text) == len(time.DateOnly) { // the most frequent form: a tenth of the time of BenchmarkRead
		if t, err := time.Parse(time.DateOnly, text); err == nil {
			return t
		}
	}
	for _, layout := range [...]string{
		time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04",
		time.DateTime, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05-0700",
		time.RFC1123Z, time.RFC1123, "Mon, 2 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05 MST",
		"2 Jan 2006 15:04:05 -0700", "2006-01", "2006",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 { // by its zone
				return time.Time{}
			}
			return t
		}
	}
	return time.Time{}
}
