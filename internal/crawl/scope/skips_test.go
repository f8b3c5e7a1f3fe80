package scope

import (
	"testing"

	"github.com/mapwright/mapwright/state"
)

// The numbers are in the data directories of users. A number that was given once keeps its meaning.
func TestReasonNumbersAreStable(t *testing.T) {
	want := map[string]Reason{
		"out_of_scope": 1, "excluded": 2, "not_included": 3, "extension": 4, "too_deep": 5, "nofollow": 6,
		"not_http": 7, "too_long": 8, "older": 9,
		"max_urls_per_host": 10, "sitemap_cross_site": 11, "trap": 12,
	}
	for _, r := range Reasons() {
		name := r.String()
		if number, ok := want[name]; ok && number != r {
			t.Errorf("%s has the number %d, want %d", name, r, number)
		}
		delete(want, name)
		if name == "" || int(r) >= len(state.Counters{}.Skips)-1 {
			t.Errorf("reason %d is called %q; numbers end before %d", r, name, len(state.Counters{}.Skips)-1)
		}
	}
	if len(want) > 0 {
		t.Errorf("no such reasons: %v", want)
	}
}
