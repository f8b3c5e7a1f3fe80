package page

import (
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A record of an earlier version has texts of any length. They are cut when it is read.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("é", 125_000)
	old := Facts{Error: long, RedirectTo: "https://a.test/" + long, ContentType: "text/html; x=" + long, ETag: `"` + long,
		LastModifiedHeader: long, Title: "a title"}
	got, err := Decode(old.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.RedirectTo, "too long, 250015 bytes: https://a.test/éé") || len(got.RedirectTo) > 300 {
		t.Errorf("redirect_to %q", got.RedirectTo)
	}
	if _, isURL := weburl.FromCanonical(got.RedirectTo); isURL {
		t.Errorf("%q is taken for a URL", got.RedirectTo)
	}
	if !strings.HasSuffix(got.Error, "é…") || len(got.Error) > maxError+len("…") {
		t.Errorf("an error of %d bytes: %.40q", len(got.Error), got.Error)
	}
	if !strings.HasPrefix(got.ContentType, "text/html; x=é") || !strings.HasSuffix(got.ContentType, "é…") ||
		len(got.ContentType) > maxContentType+len("…") || MediaType(got.ContentType) != "text/html" {
		t.Errorf("content_type %q", got.ContentType)
	}
	if got.ETag != "" || got.LastModifiedHeader != "" {
		t.Errorf("validators of %d and %d bytes are kept", len(got.ETag), len(got.LastModifiedHeader))
	}
	again := *got
	if again.Bound(); again.RedirectTo != got.RedirectTo || again.Error != got.Error ||
		again.ContentType != got.ContentType || got.Title != "a title" {
		t.Errorf("cut again: %+v, was %+v", again, got)
	}
}

// What is not too long stays, and costs no memory.
func TestBoundKeepsOrdinaryTexts(t *testing.T) {
	f := Facts{Error: strings.Repeat("e", maxError), RedirectTo: strings.Repeat("r", MaxTarget),
		ContentType: strings.Repeat("c", maxContentType), ETag: strings.Repeat("t", MaxValidator),
		LastModifiedHeader: strings.Repeat("m", MaxValidator)}
	before := f
	if n := testing.AllocsPerRun(100, f.Bound); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if f.Error != before.Error || f.RedirectTo != before.RedirectTo || f.ContentType != before.ContentType ||
		f.ETag != before.ETag || f.LastModifiedHeader != before.LastModifiedHeader {
		t.Error("texts of the longest length are changed")
	}
}
