package parser

import (
	"bytes"
	"net/http"
)

// headers takes links and facts from the header of the response.
func (w *walker) headers(h http.Header) {
	for _, v := range h["Location"] {
		w.addLink(KindHeader, []byte(v), nil)
	}
	for _, v := range h["Link"] {
		w.linkHeader([]byte(v))
	}
	for _, v := range h["X-Robots-Tag"] {
		w.facts.robots.addHeader([]byte(v), w.parser.token)
	}
	if v := h["Content-Language"]; len(v) == 1 {
		w.setLanguage([]byte(v[0]), languageHeader)
	}
}

// linkHeader takes the links of a Link field, by the lenient algorithm of RFC 8288,
// appendix B.2. It stops at what is no link.
func (w *walker) linkHeader(b []byte) {
	for {
		for len(b) > 0 && (isSpace(b[0]) || b[0] == ',') {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != '<' {
			return
		}
		target, rest, ok := bytes.Cut(b[1:], []byte(">"))
		if !ok {
			return
		}
		var l linkParams
		b = l.read(rest)
		// A link with an anchor starts at another page, or at a part of this one.
		if l.rel != nil && l.anchor == nil {
			w.related(KindHeader, target, l.rel, l.hreflang)
		}
	}
}

// linkParams are the parameters of a header link that matter. The first of each
// name counts.
type linkParams struct {
	rel, anchor, hreflang []byte
}

// read reads parameters up to the next link and returns the rest.
func (l *linkParams) read(b []byte) []byte {
	for {
		b = skipSpace(b)
		if len(b) == 0 || b[0] != ';' {
			return b
		}
		b = skipSpace(b[1:])
		n := bytes.IndexAny(b, " \t=;,")
		if n < 0 {
			n = len(b)
		}
		name := b[:n]
		b = skipSpace(b[n:])
		value := []byte{}
		if len(b) > 0 && b[0] == '=' {
			value, b = paramValue(skipSpace(b[1:]))
		}
		switch {
		case equalFold(name, "rel") && l.rel == nil:
			l.rel = value
		case equalFold(name, "anchor") && l.anchor == nil:
			l.anchor = value
		case equalFold(name, "hreflang") && l.hreflang == nil:
			l.hreflang = value
		}
	}
}

// paramValue reads a token or a quoted string.
func paramValue(b []byte) (value, rest []byte) {
	if len(b) == 0 || b[0] != '"' {
		n := bytes.IndexAny(b, ";,")
		if n < 0 {
			n = len(b)
		}
		return trimSpace(b[:n]), b[n:]
	}
	value = []byte{}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return value, b[i+1:]
		case '\\':
			if i+1 < len(b) {
				i++
			}
		}
		value = append(value, b[i])
	}
	return value, nil
}
