package robots

// ProductToken returns the product token at the start of a User-Agent header:
// "Mapwright" of "Mapwright/1.0 (+https://...)". It is empty when the header
// starts with something that a token may not hold.
func ProductToken(userAgent string) string {
	i := 0
	for i < len(userAgent) && isTokenByte(userAgent[i]) {
		i++
	}
	return userAgent[:i]
}

// ValidToken reports whether token can be named by a User-agent line at all:
// letters, hyphens and underscores, at least one.
func ValidToken(token string) bool {
	return token != "" && len(ProductToken(token)) == len(token)
}

func isTokenByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '_'
}
