package parser

import "bytes"

// A span is a part of a buffer. Bodies and arenas stay far below 4 GiB.
type span struct{ start, end uint32 }

func (s span) of(b []byte) []byte { return b[s.start:s.end] }
func (s span) in(b string) string { return b[s.start:s.end] }

// markup says what a '<' turned out to begin.
type markup uint8

const (
	markupText  markup = iota // nothing: it is a character of the text
	markupStart               // a start tag
	markupEnd                 // an end tag
	markupVoid                // a comment, doctype or the like, passed over
	markupCDATA               // a CDATA section of foreign content
	markupCut                 // something that the end of the input cuts off
)

// A scanner reads tokens from src. It does not read text: its caller
// moves pos to the next '<' and calls next there.
type scanner struct {
	src   []byte
	names *names
	pos   int
	cdata span // content of the section after markupCDATA
}

// next reads what the '<' at pos begins and leaves pos behind it. For a start or
// an end tag it fills t. CDATA sections exist in foreign content only.
func (s *scanner) next(t *tag, foreign bool) markup {
	i := s.pos + 1
	if i >= len(s.src) {
		s.pos = len(s.src)
		return markupText
	}
	switch c := s.src[i]; {
	case isLetter(c):
		return s.tag(t, i, markupStart)
	case c == '/':
		i++
		switch {
		case i >= len(s.src):
			s.pos = len(s.src)
			return markupText
		case isLetter(s.src[i]):
			return s.tag(t, i, markupEnd)
		case s.src[i] == '>':
			s.pos = i + 1
			return markupVoid
		}
		return s.bogus(i)
	case c == '!':
		return s.declaration(i+1, foreign)
	case c == '?':
		return s.bogus(i)
	}
	s.pos = i
	return markupText
}

// declaration reads what follows "<!", from i.
func (s *scanner) declaration(i int, foreign bool) markup {
	rest := s.src[i:]
	if bytes.HasPrefix(rest, []byte("--")) {
		return s.comment(i + len("--"))
	}
	if foreign && bytes.HasPrefix(rest, []byte("[CDATA[")) {
		start := i + len("[CDATA[")
		end, next := len(s.src), len(s.src)
		if n := bytes.Index(s.src[start:], []byte("]]>")); n >= 0 {
			end = start + n
			next = end + len("]]>")
		}
		s.cdata = span{uint32(start), uint32(end)}
		s.pos = next
		return markupCDATA
	}
	// A doctype too ends at the first '>', even inside a quoted identifier.
	return s.bogus(i)
}

// bogus passes over a comment that ends at the first '>' from i on.
func (s *scanner) bogus(i int) markup {
	n := bytes.IndexByte(s.src[i:], '>')
	if n < 0 {
		s.pos = len(s.src)
		return markupCut
	}
	s.pos = i + n + 1
	return markupVoid
}

// comment passes over a comment whose "<!--" ends before start. It ends at "-->"
// or "--!>", or at once with "<!-->" and "<!--->".
func (s *scanner) comment(start int) markup {
	src := s.src
	for i := start; ; {
		n := bytes.IndexByte(src[i:], '>')
		if n < 0 {
			s.pos = len(src)
			return markupCut
		}
		body := src[start : i+n]
		i += n + 1
		if bytes.HasSuffix(body, []byte("--")) || bytes.HasSuffix(body, []byte("--!")) ||
			len(body) == 0 || (len(body) == 1 && body[0] == '-') {
			s.pos = i
			return markupVoid
		}
	}
}
