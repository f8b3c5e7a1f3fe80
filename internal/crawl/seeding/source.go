package seeding

import (
	"context"
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A sinkFunc takes what a source found. It must not keep the slice. Its error ends the source and is returned.
type sinkFunc func(ctx context.Context, urls []weburl.URL) error

// A summary says what one question brought.
type summary struct {
	Rows   int64 // entries of the index that were read
	Found  int64 // URLs handed over, repeats included
	Absent int64 // names that do not exist any more
	Failed int64 // names that DNS had no answer for
}

// within reports whether a host is the domain or below it.
func within(host, domain string) bool {
	rest, ok := strings.CutSuffix(host, domain)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}
