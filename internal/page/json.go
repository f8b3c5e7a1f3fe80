package page

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the line as encoding/json would write it with its tags, without escapes for HTML and without a line feed. An
// export spends most of its time here, and reflection would make it five times as long.
func (l *Line) AppendJSON(dst []byte) []byte {
	o := object{append(dst, '{')}
	o.int("schema_version", int64(l.SchemaVersion))
	o.text("url", l.URL)
	o.int("depth", int64(l.Depth))
	o.someText("parent_url", l.ParentURL)
	o.text("source", l.Source)
	o.someTime("discovered_at", l.DiscoveredAt)
	o.someTime("crawled_at", l.CrawledAt)
	o.text("outcome", l.Outcome)
	o.someInt("status_code", l.StatusCode)
	o.someText("error", l.Error)
	o.someInt("attempts", l.Attempts)
	o.someText("redirect_to", l.RedirectTo)
	if l.ResponseTimeMS != nil {
		o.int("response_time_ms", *l.ResponseTimeMS)
	}
	o.someText("content_type", l.ContentType)
	if l.ContentLength != nil {
		o.int("content_length", *l.ContentLength)
	}
	o.someText("content_hash", l.ContentHash)
	o.someText("title", l.Title)
	o.someText("description", l.Description)
	o.someText("h1", l.H1)
	o.someText("canonical_url", l.CanonicalURL)
	o.someText("language", l.Language)
	if len(l.Hreflang) > 0 {
		o.name("hreflang")
		o.b = appendList(o.b, l.Hreflang, func(b []byte, a LineAlternate) []byte {
			alternate := object{append(b, '{')}
			alternate.text("lang", a.Lang)
			alternate.text("url", a.URL)
			return append(alternate.b, '}')
		})
	}
	o.someText("robots_meta", l.RobotsMeta)
	o.someTexts("json_ld_types", l.JSONLDTypes)
	if len(l.OpenGraph) > 0 {
		o.name("open_graph")
		o.b = appendMap(o.b, l.OpenGraph, appendText)
	}
	if l.WordCount != nil {
		o.int("word_count", int64(*l.WordCount))
	}
	if l.LinkCount != nil {
		o.int("link_count", int64(*l.LinkCount))
	}
	o.someTime("last_modified", l.LastModified)
	o.someText("etag", l.ETag)
	o.name("indexable")
	o.b = strconv.AppendBool(o.b, l.Indexable)
	o.someText("indexable_reason", l.IndexableReason)
	if l.Robots != nil {
		o.name("robots")
		o.b = l.Robots.appendJSON(o.b)
	}
	if len(l.Extracted) > 0 {
		o.name("extracted")
		o.b = appendMap(o.b, l.Extracted, func(b []byte, v any) []byte {
			if texts, ok := v.([]string); ok {
				return appendList(b, texts, appendText)
			}
			text, _ := v.(string)
			return appendText(b, text)
		})
	}
	o.someTexts("images", l.Images)
	return append(o.b, '}')
}

func (r *LineRobots) appendJSON(dst []byte) []byte {
	o := object{append(dst, '{')}
	o.text("evidence", r.Evidence)
	o.someText("rule", r.Rule)
	if r.CrawlDelay != 0 && !math.IsNaN(r.CrawlDelay) && !math.IsInf(r.CrawlDelay, 0) {
		text, _ := json.Marshal(r.CrawlDelay) // cannot fail: it is a number
		o.name("crawl_delay")
		o.b = append(o.b, text...)
	}
	o.text("confidence", r.Confidence)
	o.someTime("checked_at", r.CheckedAt)
	return append(o.b, '}')
}

// An object is a JSON object that is being written.
type object struct{ b []byte }

func (o *object) name(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) text(name, text string) {
	o.name(name)
	o.b = appendText(o.b, text)
}

func (o *object) int(name string, n int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, n, 10)
}

func (o *object) someText(name, text string) {
	if text != "" {
		o.text(name, text)
	}
}

func (o *object) someTexts(name string, texts []string) {
	if len(texts) > 0 {
		o.name(name)
		o.b = appendList(o.b, texts, appendText)
	}
}

func (o *object) someInt(name string, n int) {
	if n != 0 {
		o.int(name, int64(n))
	}
}

func (o *object) someTime(name string, t Time) {
	if !t.IsZero() {
		o.name(name)
		o.b = append(o.b, '"')
		o.b = appendTime(o.b, t.Time)
		o.b = append(o.b, '"')
	}
}

func appendList[T any](b []byte, list []T, element func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = element(b, v)
	}
	return append(b, ']')
}

// appendMap writes a map in the order of its names.
func appendMap[T any](b []byte, m map[string]T, value func([]byte, T) []byte) []byte {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, name), ':')
		b = value(b, m[name])
	}
	return append(b, '}')
}

const hexDigits = "0123456789abcdef"

// appendText writes a text in quotes. What is not UTF-8 becomes U+FFFD; characters that are dangerous to look at are escaped.
func appendText(b []byte, text string) []byte {
	b = append(b, '"')
	from := 0 // what comes before is written
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c < 0x7f {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = append(b, text[from:i]...)
			b = appendEscape(b, c)
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || mustEscape(r) {
			b = append(b, text[from:i]...)
			b = appendHex(b, r)
			from = i + n
		}
		i += n
	}
	b = append(b, text[from:]...)
	return append(b, '"')
}

// appendEscape writes an ASCII character that cannot stand for itself.
func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendTime writes timeLayout in UTC.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(b, timeLayout)
	}
	hour, minute, second := t.Clock()
	b = append(b, byte('0'+year/1000), byte('0'+year/100%10), byte('0'+year/10%10), byte('0'+year%10), '-')
	b = append(appendTwo(b, int(month)), '-')
	b = append(appendTwo(b, day), 'T')
	b = append(appendTwo(b, hour), ':')
	b = append(appendTwo(b, minute), ':')
	b = append(appendTwo(b, second), '.')
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

func appendTwo(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }
