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

// validToken reports whether token can be named by a User-agent line at all:
// letters, digits, hyphens and underscores, at least one.
func validToken(token string) bool {
	return token != "" && len(ProductToken(token)) == len(token)
}

// isTokenByte reports whether a product token may hold c. RFC 9309 has no digits in it, but crawlers are named
// crawler1 and 360Spider, and comparing less than the whole name makes one crawler's group govern another.
func isTokenByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}
