package recrawl

import (
	"net/http"
	"strings"

	"github.com/mapwright/mapwright/internal/page"
)

// Conditions returns the headers that let a server answer 304 if a page has not changed. It returns nil if the server
// must send the page: there is nothing to compare with, or a 304 would leave a fact unknown.
func Conditions(known *Known) http.Header {
	if known == nil || known.Outcome != page.OK || known.Facts.ContentHash != nil && known.Facts.TextHash == nil {
		return nil
	}
	h := http.Header{}
	if tag := page.BoundValidator(known.Facts.ETag); tag != "" && tag != anyTag {
		h.Set("If-None-Match", tagForms(tag))
	}
	if date := page.BoundValidator(known.Facts.LastModifiedHeader); date != "" {
		h.Set("If-Modified-Since", date)
	}
	if len(h) == 0 {
		return nil
	}
	return h
}

// anyTag is no tag: sent back, it would match any page.
const anyTag = "*"

// refusesConditions reports whether a status may be due to the conditions of the request, and not to the page.
func refusesConditions(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusPreconditionFailed, http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return false
}

// tagForms returns an ETag, followed by the form that it has without compression. Servers that compress add a suffix,
// and many compare what they get with the tag of the file. A weak tag is sent as it is.
func tagForms(tag string) string {
	if plain := withoutCompression(tag); plain != tag && !strings.HasPrefix(tag, "W/") {
		return tag + ", " + plain
	}
	return tag
}

// withoutCompression cuts the suffix of a compression off a tag: "x-gzip" (Apache), "x--gzip" (Jetty) and "x;gzip"
// become "x".
func withoutCompression(tag string) string {
	inner, quoted := strings.CutSuffix(tag, `"`)
	if !quoted {
		return tag
	}
	for _, coding := range []string{"gzip", "br", "zstd", "deflate"} {
		name, found := strings.CutSuffix(inner, coding)
		if !found {
			continue
		}
		for _, separator := range []string{"--", "-", ";"} {
			if plain, found := strings.CutSuffix(name, separator); found && !strings.HasSuffix(plain, `"`) {
				return plain + `"`
			}
		}
	}
	return tag
}

// sameTag reports whether two tags stand for the same content, compressed or not.
func sameTag(a, b string) bool {
	return withoutCompression(strings.TrimPrefix(a, "W/")) == withoutCompression(strings.TrimPrefix(b, "W/"))
}

// isStrong reports whether a tag promises that equal tags mean equal bytes.
func isStrong(tag string) bool { return strings.HasPrefix(tag, `"`) }
