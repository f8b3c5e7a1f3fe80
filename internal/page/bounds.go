package page

import (
	"fmt"
	"strings"

	"github.com/mapwright/mapwright/internal/words"
)

// Bounds of what facts hold of the headers of an answer and of errors, in bytes. A site chooses these texts, and an
// answer may have 256 KiB of headers. Package parser bounds what a page says of itself.
const (
	// MaxTarget is how long the target of a redirect may be. A link on a page may not be longer either.
	MaxTarget = 8 << 10
	// MaxValidator is how long an ETag or a Last-Modified header may be. Many servers refuse requests with more than
	// 8 KiB of headers.
	MaxValidator = 1 << 10

	maxContentType = 256
	maxError       = 1 << 10
	shownTarget    = 256 // of a target that is cut
)

// Bound cuts texts that are too long. It changes nothing if it is called again. Every record is cut when it is made,
// and when it is read, because those of earlier versions have texts of any length.
func (f *Facts) Bound() {
	f.RedirectTo = BoundTarget(f.RedirectTo)
	f.ETag, f.LastModifiedHeader = BoundValidator(f.ETag), BoundValidator(f.LastModifiedHeader)
	f.ContentType = words.Shorten(f.ContentType, maxContentType)
	f.Error = words.Shorten(f.Error, maxError)
}

// BoundTarget returns the target of a redirect, cut if it is longer than MaxTarget.
func BoundTarget(target string) string {
	if len(target) <= MaxTarget {
		return target
	}
	return CutTarget(target)
}

// CutTarget returns a text that no reader takes for a URL: the length of a target and its beginning. A target of at
// most 256 bytes stays.
func CutTarget(target string) string {
	if len(target) <= shownTarget {
		return target
	}
	return fmt.Sprintf("too long, %d bytes: %s…", len(target), strings.ToValidUTF8(target[:shownTarget], ""))
}

// BoundValidator returns a header that a later request sends back, or "" if it is longer than MaxValidator: a part of
// it would be another validator.
func BoundValidator(header string) string {
	if len(header) > MaxValidator {
		return ""
	}
	return header
}
