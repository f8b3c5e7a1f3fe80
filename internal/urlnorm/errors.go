package urlnorm

import "errors"

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
