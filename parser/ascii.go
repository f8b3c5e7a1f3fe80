package parser

func isLetter(c byte) bool {
	c |= 0x20
	return 'a' <= c && c <= 'z'
}

func isAlnum(c byte) bool {
	return isLetter(c) || '0' <= c && c <= '9'
}

// White space of the HTML standard. Carriage returns count because they become
// line feeds before tokenization.
const spaceSet uint64 = 1<<'\t' | 1<<'\n' | 1<<'\f' | 1<<'\r' | 1<<' '

func isSpace(c byte) bool {
	return c <= ' ' && spaceSet>>c&1 != 0
}

// hasControl reports whether there is a control character of ASCII in b other than white space.
func hasControl(b []byte) bool {
	for _, c := range b {
		if c < ' ' && !isSpace(c) {
			return true
		}
	}
	return false
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// equalFold reports whether b is name, which is lower-case, in any ASCII case.
func equalFold(b []byte, name string) bool {
	return len(b) == len(name) && hasPrefixFold(b, name)
}

// hasPrefixFold reports whether b begins with name, which is lower-case, in any
// ASCII case.
func hasPrefixFold(b []byte, name string) bool {
	if len(b) < len(name) {
		return false
	}
	for i := range len(name) {
		if lower(b[i]) != name[i] {
			return false
		}
	}
	return true
}

// trimSpace removes white space of the HTML standard from both ends.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// cutToken splits the first token off a list separated by white space.
func cutToken(list []byte) (token, rest []byte) {
	i := 0
	for i < len(list) && isSpace(list[i]) {
		i++
	}
	start := i
	for i < len(list) && !isSpace(list[i]) {
		i++
	}
	return list[start:i], list[i:]
}

// hasToken reports whether a list separated by white space has the token.
func hasToken(list []byte, token string) bool {
	for t, rest := cutToken(list); len(t) > 0; t, rest = cutToken(rest) {
		if equalFold(t, token) {
			return true
		}
	}
	return false
}
