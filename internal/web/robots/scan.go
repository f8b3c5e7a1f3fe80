package robots

import (
	"iter"
	"strings"
)

const (
	// MaxSize is how much of a file counts, in bytes. RFC 9309 asks for at least
	// 500 KiB.
	MaxSize = 500 << 10

	// maxLine is how much of one line counts: what Google's parser keeps, eight
	// times the longest URL that browsers once took.
	maxLine = 2083*8 - 1
)

type key uint8

const (
	keyUnknown key = iota
	keyUserAgent
	keyAllow
	keyDisallow
	keySitemap
	keyCrawlDelay
)

// A line is one line of a file. Text is the line without its comment and the
// white space around it, and value is the end of text.
type line struct {
	num   int
	key   key
	text  string
	value string
	cut   bool // longer than maxLine
}

// linesOf splits a file into lines. The last one has no line ending and is often empty.
func linesOf(body string) iter.Seq[line] {
	return func(yield func(line) bool) {
		rest, more := skipBOM(body), true
		for num := 1; more; num++ {
			l := line{num: num}
			raw := rest
			i := strings.IndexAny(raw, "\r\n")
			if more = i >= 0; more {
				end := 1
				if strings.HasPrefix(raw[i:], "\r\n") {
					end = 2
				}
				raw, rest = raw[:i], raw[i+end:]
			}
			if len(raw) > maxLine {
				raw, l.cut = raw[:maxLine], true
			}
			l.parse(raw)
			if !yield(l) {
				return
			}
		}
	}
}

// skipBOM leaves out a byte order mark or the first bytes of one.
func skipBOM(s string) string {
	const bom = "\xef\xbb\xbf"
	i := 0
	for i < len(bom) && i < len(s) && s[i] == bom[i] {
		i++
	}
	return s[i:]
}

// parse takes the key and the value out of a line. A line that is no directive
// keeps keyUnknown and no text.
func (l *line) parse(raw string) {
	text, _, _ := strings.Cut(raw, "#")
	text = trim(text)
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		// Two words and no colon are taken for a key and a value.
		i := strings.IndexAny(text, " \t")
		if i < 0 {
			return
		}
		name, value = text[:i], strings.TrimLeft(text[i:], " \t")
		if strings.ContainsAny(value, " \t") {
			return
		}
	}
	name, value = trim(name), trim(value)
	if name == "" {
		return
	}
	l.key, l.text, l.value = keyOf(name), text, value
}

func trim(s string) string {
	return strings.Trim(s, " \t\n\v\f\r")
}

// keyOf names a key by how it begins, so that "Disallowed" and "Sitemap-URL" are
// what they look like.
func keyOf(name string) key {
	switch {
	case begins(name, "user-agent"), begins(name, "useragent"), begins(name, "user agent"):
		return keyUserAgent
	case begins(name, "allow"):
		return keyAllow
	case begins(name, "disallow"), begins(name, "dissallow"), begins(name, "dissalow"),
		begins(name, "disalow"), begins(name, "diasllow"), begins(name, "disallaw"):
		return keyDisallow
	case begins(name, "sitemap"), begins(name, "site-map"):
		return keySitemap
	case begins(name, "crawl-delay"), begins(name, "crawldelay"), begins(name, "crawl delay"):
		return keyCrawlDelay
	}
	return keyUnknown
}

func begins(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
