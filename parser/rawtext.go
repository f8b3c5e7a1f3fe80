package parser

import "bytes"

// rawText returns the content of a raw text element, whose start tag ends at
// pos, and moves pos to its end tag. An element that is never closed has
// all the rest as its content.
func (s *scanner) rawText(t *tag) []byte {
	start, end := s.pos, len(s.src)
	switch t.elem {
	case elemPlaintext:
	case elemScript:
		end = scriptEnd(s.src, start)
	default:
		end = endTag(s.src, start, t.name.of(s.src))
	}
	s.pos = end
	return s.src[start:end]
}

// endTag finds the first end tag with this name from i on.
func endTag(src []byte, i int, name []byte) int {
	for {
		n := bytes.IndexByte(src[i:], '<')
		if n < 0 {
			return len(src)
		}
		i += n
		if i+1 < len(src) && src[i+1] == '/' && isNamed(src, i+2, name) {
			return i
		}
		i++
	}
}

// isNamed reports whether a tag name at i is name in any ASCII case, and ends
// there.
func isNamed(src []byte, i int, name []byte) bool {
	end := i + len(name)
	if end >= len(src) || !endsTagName(src[end]) {
		return false
	}
	for j, c := range src[i:end] {
		if lower(c) != lower(name[j]) {
			return false
		}
	}
	return true
}

// scriptEnd finds the end tag that closes a script whose content begins at
// start. Between "<!--" and "-->" a nested "<script" hides the next end tag: these
// are the escaped and double escaped states of the standard.
func scriptEnd(src []byte, start int) int {
	name := []byte("script")
	i, end := start, endTag(src, start, name)
	for {
		open := bytes.Index(src[i:end], []byte("<!--"))
		if open < 0 {
			return end
		}
		i += open
		var closed bool
		if i, closed = escapedEnd(src, i+len("<!--"), i+len("<!"), name); closed {
			return i
		}
		if i > end { // that end tag was hidden; looking again only then keeps this linear
			end = endTag(src, i, name)
		}
	}
}

// escapedEnd walks the escaped part of a script from i. The two dashes of its
// opening, at dashes, may already belong to the "-->" that ends it. It returns
// the position of the script's end tag and true, or the position behind "-->"
// and false; at the end of the input it returns that and true.
func escapedEnd(src []byte, i, dashes int, name []byte) (int, bool) {
	double := false
	for i < len(src) {
		switch c := src[i]; {
		case c == '>':
			if i-2 >= dashes && src[i-1] == '-' && src[i-2] == '-' {
				return i + 1, false
			}
		case c == '<' && double:
			if i+1 < len(src) && src[i+1] == '/' && isNamed(src, i+2, name) {
				double = false
				i += len("</script")
			}
		case c == '<':
			switch {
			case i+1 < len(src) && src[i+1] == '/':
				if isNamed(src, i+2, name) {
					return i, true
				}
			case isNamed(src, i+1, name):
				double = true
				i += len("<script")
			}
		}
		i++
	}
	return len(src), true
}
