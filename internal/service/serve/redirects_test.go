package serve

import (
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
)

// A redirect of a crawl that runs may lead to what is no URL.
func TestRedirectToNoURL(t *testing.T) {
	find := recordedFinder(t.Context(), nil, "") // which is not asked for any
	for _, to := range []string{"mailto:a@b.test", page.CutTarget("https://a.test/" + strings.Repeat("x", 9000))} {
		hops, err := redirectsOf("https://a.test/", []byte(`{"outcome":"redirect","redirect_to":"`+to+`"}`), find)
		if err != nil || len(hops) != 1 || hops[0] != (hop{URL: to}) {
			t.Errorf("%s: %v, %v", to, hops, err)
		}
	}
}
