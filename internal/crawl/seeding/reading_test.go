package seeding

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
)

// What was read of a sitemap and waits to be added is little, however long the URLs are. Those that are too long are
// counted, or warned of.
func TestBatchesAreSmall(t *testing.T) {
	start := mustURL(t, "http://a.test/")
	settings := config.Defaults(config.Polite)
	within, err := scope.New(settings, []weburl.URL{start})
	if err != nil {
		t.Fatal(err)
	}
	added, warnings := 0, ""
	s := &Sitemaps{o: Options{
		Scope: within, Limits: Limits{}.withDefaults(),
		Add: func(_ context.Context, links []frontier.Link) error {
			bytes := 0
			for i := range links {
				bytes += len(links[i].URL.String())
			}
			if added += len(links); bytes > batchBytes+frontier.MaxURL || len(links) > Batch {
				t.Errorf("%d links with %d bytes at once", len(links), bytes)
			}
			return nil
		},
		Warn: func(format string, args ...any) { warnings += fmt.Sprintf(format, args...) },
	}}
	var text strings.Builder
	text.WriteString("<urlset>")
	for i := range 3 * Batch {
		fmt.Fprintf(&text, "<url><loc>/%d/%s</loc></url>", i, strings.Repeat("x", 10*i))
	}
	long := strings.Repeat("x", 10<<10)
	fmt.Fprintf(&text, "<url><loc>/%s</loc></url><sitemap><loc>/%[1]s</loc></sitemap></urlset>", long)
	m := &Reading{s: s, link: frontier.Link{URL: start}}
	if err := m.Read(t.Context(), strings.NewReader(text.String()), func() func() { return func() {} }); err != nil {
		t.Fatal(err)
	}
	if added != 3*Batch || m.skips[scope.TooLong] != 1 || m.warnings != 1 ||
		!strings.Contains(warnings, "too long") {
		t.Errorf("%d entries were added, %v left out, warnings %q", added, m.skips, warnings)
	}
}
