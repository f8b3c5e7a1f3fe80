package weburl

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// profile is UTS #46 with the URL Standard's parameters (beStrict is false).
var profile = idna.New(
	idna.MapForLookup(),
	idna.Transitional(false),
	idna.BidiRule(),
	idna.CheckJoiners(true),
	idna.CheckHyphens(false),
	idna.StrictDomainName(false),
	idna.VerifyDNSLength(false),
)

// Names of the DNS have at most 253 characters of ASCII, and their labels 63. Each other character becomes one or more
// of ASCII. The time to convert a label grows with the square of its length, so longer ones are refused. The bounds
// leave room for the characters that UTS #46 ignores.
const (
	maxConverted = 300 // characters of a domain that is not ASCII, also when it is mapped
	maxLabel     = 80  // of each of its labels
)

// toASCII is the URL Standard's domain to ASCII. A domain that is ASCII already is only put in lower case: its "xn--"
// labels are not checked. Others that are too long for the DNS are refused.
func toASCII(domain string) (string, error) {
	if isASCII(domain) {
		return lowerASCII(domain), nil
	}
	if utf8.RuneCountInString(domain) > maxConverted {
		return "", ErrHost
	}
	domain = strings.Map(remapIDNA, domain) // and what is not UTF-8 to U+FFFD
	mapped := 0
	for label := range strings.FieldsFuncSeq(domain, isDot) {
		n := utf8.RuneCountInString(norm.NFKC.String(label))
		mapped += n
		if n > maxLabel || mapped > maxConverted || !validACE(label) {
			return "", ErrHost
		}
	}
	out, err := profile.ToASCII(domain)
	if err != nil || out == "" {
		return "", ErrHost
	}
	return out, nil
}

// validACE checks three rules of UTS #46 that package idna does not know. They are about labels that begin with "xn--"
// after mapping: such a label is ASCII throughout, does not decode to an empty label, and does not decode to a label
// that begins with "xn--" again. All other labels pass.
func validACE(label string) bool {
	const prefix = "xn--"
	mapped := ""
	for _, r := range label {
		m, err := profile.ToASCII(string(r))
		if err != nil || strings.HasPrefix(m, prefix) { // not ASCII when mapped
			return !strings.HasPrefix(mapped, prefix)
		}
		mapped += m
		if n := min(len(mapped), len(prefix)); mapped[:n] != prefix[:n] {
			return true
		}
	}
	if len(mapped) < len(prefix) {
		return true
	}
	u, err := profile.ToUnicode(mapped)
	return err == nil && u != "" && !strings.HasPrefix(u, prefix)
}

// isDot reports whether UTS #46 ends a label at r.
func isDot(r rune) bool {
	return r == '.' || r == '\u3002' || r == '\uff0e' || r == '\uff61'
}

// remapIDNA maps the characters whose mapping changed between Unicode 15.0,
// whose tables package idna brings for this Go version, and Unicode 17. A
// negative result removes the character. Characters that are themselves newer
// than 15.0 remain refused until the tables know them.
func remapIDNA(r rune) rune {
	switch {
	case 0x10a0 <= r && r <= 0x10c5: // Georgian capitals
		return r - 0x10a0 + 0x2d00
	case 0x2061 <= r && r <= 0x2063, 0x206a <= r && r <= 0x206f, 0x1d173 <= r && r <= 0x1d17a:
		return -1
	}
	switch r {
	case 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180e, 0x3164, 0xffa0:
		return -1
	case 0x04c0:
		return 0x04cf
	case 0x1e9e:
		return 0xdf
	case 0x2132:
		return 0x214e
	case 0x2183:
		return 0x2184
	case 0x2f868:
		return 0x36fc
	case 0x2f874:
		return 0x5f53
	case 0x2f91f:
		return 0x243ab
	case 0x2f95f:
		return 0x7aee
	case 0x2f9bf:
		return 0x45d7
	}
	return r
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func lowerASCII(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return strings.ToLower(s)
		}
	}
	return s
}
