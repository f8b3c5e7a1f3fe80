package parser

// refreshURL returns the address in the content of a meta refresh, or nothing if
// it names none. The steps are the standard's, under which nearly anything
// after the seconds is an address.
func refreshURL(content []byte) []byte {
	b := skipSpace(content)
	digits := 0
	for digits < len(b) && '0' <= b[digits] && b[digits] <= '9' {
		digits++
	}
	if digits == 0 && (len(b) == 0 || b[0] != '.') {
		return nil
	}
	b = b[digits:]
	for len(b) > 0 && (b[0] == '.' || '0' <= b[0] && b[0] <= '9') {
		b = b[1:]
	}
	if len(b) == 0 || b[0] != ';' && b[0] != ',' && !isSpace(b[0]) {
		return nil
	}
	b = skipSpace(b)
	if len(b) > 0 && (b[0] == ';' || b[0] == ',') {
		b = skipSpace(b[1:])
	}

	if url, ok := afterURLWord(b); ok {
		b = url
	}
	if len(b) > 0 && (b[0] == '"' || b[0] == '\'') {
		quote := b[0]
		b = b[1:]
		for i, c := range b {
			if c == quote {
				return trimSpace(b[:i])
			}
		}
	}
	return trimSpace(b)
}

// afterURLWord returns what follows "url =" at the start of b.
func afterURLWord(b []byte) ([]byte, bool) {
	if !hasPrefixFold(b, "url") {
		return nil, false
	}
	b = skipSpace(b[len("url"):])
	if len(b) == 0 || b[0] != '=' {
		return nil, false
	}
	return skipSpace(b[1:]), true
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}
