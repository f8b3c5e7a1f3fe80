package crawl

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// An index whose address the user chose may be on a private address, on that port. The default address may not, nor may
// another port.
func TestChosenIndexMayBePrivate(t *testing.T) {
	t.Parallel()
	index, other := httptest.NewServer(http.NotFoundHandler()), httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(index.Close)
	t.Cleanup(other.Close)
	for _, tt := range []struct {
		name, usual, url string
		want             fetch.Kind
	}{
		{"chosen", "https://index.test", index.URL, ""},
		{"default", index.URL, index.URL, fetch.RefusedAddress},
		{"another port", "https://index.test", other.URL, fetch.RefusedAddress},
	} {
		r := &run{o: &Options{}, settings: config.Defaults(config.Polite)}
		f, stop, err := r.sourceFetcher(index.URL, tt.usual)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := f.Do(t.Context(), fetch.Request{URL: mustURL(t, tt.url), Mode: fetch.Text})
		if fetch.KindOf(err) != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		resp.Close()
		stop()
	}
}
