package weburl

// parseHost is the URL Standard's host parser for special schemes.
func parseHost(s string) (string, error) {
	if s == "" {
		return "", ErrHost
	}
	if s[0] == '[' {
		if s[len(s)-1] != ']' {
			return "", ErrHost
		}
		return parseIPv6(s[1 : len(s)-1])
	}
	domain, err := toASCII(percentDecode(s))
	if err != nil {
		return "", err
	}
	for i := range len(domain) {
		if forbiddenInDomain[domain[i]] {
			return "", ErrHost
		}
	}
	if endsInNumber(domain) {
		return parseIPv4(domain)
	}
	return domain, nil
}

// forbiddenInDomain is the standard's forbidden domain code points.
var forbiddenInDomain = encodeSet(" #/:<>?@[\\]^|%")
