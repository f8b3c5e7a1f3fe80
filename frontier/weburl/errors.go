package weburl

import (
	"errors"
	"strings"
)

// What can be wrong with a reference. They are returned as they are, without
// the offending text, so that refusing one of a page's many links costs nothing.
var (
	// ErrScheme means a scheme other than http and https.
	ErrScheme = errors.New("url scheme is not http or https")
	// ErrRelative means a relative reference and no base to resolve it against.
	ErrRelative = errors.New("url is relative and has no base")
	// ErrHost means a host that is missing or not a valid name or address.
	ErrHost = errors.New("url host is invalid")
	// ErrPort means a port that is not a number or over 65535.
	ErrPort = errors.New("url port is invalid")
	// ErrLength means a reference of absurd length (over 16 MiB with its base).
	ErrLength = errors.New("url is too long")
)

// HideUserinfo is a text to show in messages instead of a URL that may hold a
// password: what stands before the last "@" is replaced by "***". The URL need
// not be valid, so more than the user name and the password may be replaced.
func HideUserinfo(text string) string {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return text
	}
	begin := 0
	if i := strings.Index(text, "://"); i >= 0 && i < at {
		begin = i + len("://")
	}
	return text[:begin] + "***" + text[at:]
}

// CutUserinfo returns an absolute http or https URL without its user name and
// password, and whether it has any. It finds those that Parse drops.
func CutUserinfo(text string) (without string, found bool) {
	if !strings.Contains(text, "@") { // most have none; the replacer below takes longer than all else
		return text, false
	}
	clean := strings.Trim(strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(text), c0AndSpace)
	scheme, rest, _ := strings.Cut(clean, ":")
	if !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return text, false
	}
	authority := strings.TrimLeft(rest, "/\\")
	path := ""
	if end := strings.IndexAny(authority, "/\\?#"); end >= 0 {
		authority, path = authority[:end], authority[end:]
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return text, false
	}
	return scheme + "://" + authority[at+1:] + path, true
}

// c0AndSpace are the characters that Parse ignores around a URL.
const c0AndSpace = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f" +
	"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f "
