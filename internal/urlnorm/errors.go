package urlnorm

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
