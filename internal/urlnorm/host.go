package urlnorm

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// parseHost is the URL Standard's host parser for special schemes.
func parseHost(s string) (string, error) {
	if s[0] == '[' {
		if s[len(s)-1] != ']' {
			return "", ErrHost
		}
		return parseIPv6(s[1 : len(s)-1])
	}
	domain, err := toASCII(strings.ToValidUTF8(percentDecode(s), "\uFFFD"))
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

var profile = idna.New(
	idna.MapForLookup(),
	idna.BidiRule(),
	idna.CheckHyphens(false),
	idna.CheckJoiners(true),
	idna.StrictDomainName(false),
	idna.Transitional(false),
	idna.VerifyDNSLength(false),
)

// toASCII is the standard's domain to ASCII. A domain that is ASCII already is
// only put in lower case: what stands in its "xn--" labels is not judged.
func toASCII(domain string) (string, error) {
	ascii := true
	for i := range len(domain) {
		if domain[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(domain), nil
	}
	out, err := profile.ToASCII(domain)
	if err != nil || out == "" {
		return "", ErrHost
	}
	return out, nil
}
