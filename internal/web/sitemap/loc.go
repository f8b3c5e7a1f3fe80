package sitemap

// Limits of the schema for an address: in characters, before the escaping of XML.
const (
	minLoc = 12
	maxLoc = 2048
)

// Fits reports whether a URL can stand in a sitemap. It may be a little longer there than it is (see appendURL).
func Fits(url string) bool {
	n := len(url)
	for i := range len(url) {
		if needsEscape(url, i) {
			n += len("%XX") - 1
		}
	}
	return n >= minLoc && n <= maxLoc
}

// appendURL writes a URL as RFC 3986 has it, which the protocol asks for and the schema checks. Browsers and servers
// let some more characters stand in paths and queries, such as brackets, bars and a percent sign that begins no escape;
// here they are escaped.
func appendURL(b []byte, url string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(url) {
		c := url[i]
		switch {
		case needsEscape(url, i):
			b = append(b, '%', hex[c>>4], hex[c&15])
		case c == '&':
			b = append(b, "&amp;"...)
		case c == '\'':
			b = append(b, "&apos;"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// needsEscape says whether the byte at i is one that RFC 3986 does not allow where it stands.
func needsEscape(url string, i int) bool {
	switch c := url[i]; {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return false
	case c == '%':
		return i+2 >= len(url) || !isHex(url[i+1]) || !isHex(url[i+2])
	case c == '[' || c == ']':
		return i > authorityEnd(url)
	case c <= ' ' || c >= 0x7f:
		return true
	default:
		return c == '"' || c == '<' || c == '>' || c == '\\' || c == '^' || c == '`' || c == '{' || c == '|' || c == '}'
	}
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

// authorityEnd is where the host of an absolute URL ends: an IPv6 address stands in brackets.
func authorityEnd(url string) int {
	slashes := 0
	for i := range len(url) {
		if url[i] == '/' {
			if slashes++; slashes == 3 {
				return i
			}
		}
	}
	return len(url)
}
