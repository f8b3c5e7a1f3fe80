package recrawl

import (
	"strconv"
	"time"

	"github.com/mapwright/mapwright/internal/page"
)

// compare lists the facts in which an answer differs from what is known.
func compare(known *Known, now *Answer) []Difference {
	var all []Difference
	add := func(field Field, before, after string) {
		if before != after {
			all = append(all, Difference{field, before, after})
		}
	}
	before, after := known.Facts, &now.Facts
	outcome := known.Outcome.String()
	if known.Outcome == page.Pending {
		outcome = ""
	}
	add(Outcome, outcome, now.Outcome.String())
	add(StatusCode, number(known.Status), number(now.Status))
	add(RedirectTo, before.RedirectTo, after.RedirectTo)
	if now.Outcome != page.OK {
		return all
	}
	add(Title, before.Title, after.Title)
	if known.Outcome != page.OK {
		return all
	}
	add(CanonicalURL, before.Canonical, after.Canonical)
	add(NoIndex, strconv.FormatBool(before.NoIndex), strconv.FormatBool(after.NoIndex))
	add(ContentType, page.MediaType(before.ContentType), page.MediaType(after.ContentType))
	switch {
	case known.OtherReader && sameContent(before, after):
	case before.TextHash != nil && after.TextHash != nil:
		add(TextHash, before.TextHash.String(), after.TextHash.String())
	case before.ContentHash == nil && after.ContentHash == nil:
		all = append(all, compareDocuments(before, after)...)
	}
	return all
}

// compareDocuments compares what is known of documents that are not read: strong tags decide, else the Last-Modified
// headers if they can be believed, else the lengths.
func compareDocuments(before, after *page.Facts) []Difference {
	switch {
	case isStrong(before.ETag) && isStrong(after.ETag):
		if !sameTag(before.ETag, after.ETag) {
			return []Difference{{ETag, before.ETag, after.ETag}}
		}
	case !before.LastModified.IsZero() && !after.LastModified.IsZero():
		if !before.LastModified.Equal(after.LastModified.Time) {
			return []Difference{{LastModified, dateText(before.LastModified), dateText(after.LastModified)}}
		}
	case before.ContentLength != nil && after.ContentLength != nil && *before.ContentLength != *after.ContentLength:
		return []Difference{{ContentLength, strconv.FormatInt(*before.ContentLength, 10),
			strconv.FormatInt(*after.ContentLength, 10)}}
	}
	return nil
}

// dateText is the form of a date in differences.
func dateText(t page.Time) string { return t.UTC().Format(time.RFC3339) }

// number returns the text of a number. Zero means that the number is not known, and its text is empty.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
