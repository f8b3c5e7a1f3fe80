package crawl

import (
	"net/http"
	"testing"
	"time"
)

// sameDate holds httpDate against net/http.
func sameDate(t *testing.T, text string) {
	t.Helper()
	got, err := httpDate(text)
	want, wantErr := http.ParseTime(text)
	if (err == nil) != (wantErr == nil) || err == nil && !got.UTC().Equal(want) {
		t.Errorf("%q is %v, %v; want %v, %v", text, got, err, want, wantErr)
	}
}

func TestHTTPDate(t *testing.T) {
	for day := range 366 * 5 {
		at := time.Date(2023, 1, 1, day%24, day%60, (day*7)%60, 0, time.UTC).AddDate(0, 0, day)
		sameDate(t, at.Format(http.TimeFormat))
	}
	for _, text := range []string{
		"", "now", "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
		"Xxx, 06 Nov 1994 08:49:37 GMT", "unM, 06 Nov 1994 08:49:37 GMT", "Sun, 06 ovD 1994 08:49:37 GMT", "Sun, 31 Feb 2024 08:49:37 GMT", "Thu, 29 Feb 2024 08:49:37 GMT",
		"Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:60 GMT", "Sun, 06 Nov 1994 08:49:37 UTC",
		"Sun, x6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 19x4 08:49:37 GMT", "Sun, 06 Nov 0000 08:49:37 GMT", "sun, 06 nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT ",
	} {
		sameDate(t, text)
	}
}

func FuzzHTTPDate(f *testing.F) {
	f.Add("Sun, 06 Nov 1994 08:49:37 GMT")
	f.Add("Thu, 29 Feb 2024 23:59:59 GMT")
	f.Fuzz(func(t *testing.T, text string) { sameDate(t, text) })
}
