package results

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/test/e2e"
)

// The closing table, broken_links of report.json, problems.jsonl and report.html name the same URLs as broken links.
func TestBrokenLinksHaveOneMeaning(t *testing.T) {
	t.Parallel()
	const at = "http://a.test"
	answers := map[string]int{"/gone": 410, "/teapot": 418, "/login": 401, "/forbidden": 403, "/law": 451,
		"/wrong": 500, "/lost-start": 404, "/linked-start": 404, "/moved-away": 404, "/listed": 404}
	resolve := e2e.Handlers(t, map[string]http.HandlerFunc{"a.test": func(w http.ResponseWriter, r *http.Request) {
		switch status, ok := answers[r.URL.Path]; {
		case ok:
			w.WriteHeader(status)
		case r.URL.Path == "/":
			links(w, "/gone", "/teapot", "/login", "/forbidden", "/law", "/wrong", "/large", "/moved", "/linked-start",
				"http://nowhere.test:9/")
		case r.URL.Path == "/large":
			fmt.Fprint(w, strings.Repeat("x", 8<<10))
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/moved-away", http.StatusFound)
		case r.URL.Path == "/sitemap.xml":
			fmt.Fprintf(w, "<urlset><url><loc>%s/listed</loc></url></urlset>", at)
		default:
			http.NotFound(w, r)
		}
	}})
	for name, recorded := range map[string]bool{"links are recorded": true, "links are not recorded": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			args := []string{"crawl", "-u", at + "/", "-u", at + "/lost-start", "-u", at + "/linked-start", "--scope",
				"any", "--max-body-size", "4096",
				"--resolve", "nowhere.test:9:" + e2e.ClosedPort(t), "--resolve", resolve, "--profile", "own-site",
				"--max-retries", "0", "--data-dir", dir}
			// Nothing links to /listed and /lost-start. Whether something links to a start URL is known only if links
			// are recorded.
			want := map[string]string{"/gone": "410", "/teapot": "418", "/moved-away": "404",
				"http://nowhere.test:9/": "connect_error"}
			if recorded {
				args = append(args, "--links")
				want["/linked-start"] = "404"
			}
			got := e2e.Run(t, args...)
			if got.Code != 0 {
				t.Fatalf("exit status %d", got.Code)
			}
			var rep struct {
				Broken struct {
					Total int
					Items []struct {
						URL        string
						Outcome    string
						StatusCode int       `json:"status_code"`
						FoundOn    string    `json:"found_on"`
						LinkedFrom *struct{} `json:"linked_from"`
					}
				} `json:"broken_links"`
				Problems []problems.Problem
				Warnings []string
			}
			e2e.ReadJSON(t, dir, "report.json", &rep)
			broken := rep.Problems[slices.IndexFunc(rep.Problems,
				func(p problems.Problem) bool { return p.Code == "broken_link" })]
			if rep.Broken.Total != len(want) || len(rep.Broken.Items) != len(want) || broken.Count != int64(len(want)) {
				t.Fatalf("broken_links has %d URLs, problem broken_link %d, want %d: %+v", rep.Broken.Total,
					broken.Count, len(want), rep.Broken.Items)
			}
			for i, b := range rep.Broken.Items {
				answer := want[strings.TrimPrefix(b.URL, at)]
				if broken.Items[i].URL != b.URL || broken.Items[i].Value != answer ||
					fmt.Sprint(b.StatusCode) != answer && b.Outcome != answer {
					t.Errorf("%+v, and as a problem %+v, want %s", b, broken.Items[i], answer)
				}
				from := at + "/"
				if strings.HasSuffix(b.URL, "/moved-away") {
					from = at + "/moved"
				}
				if b.FoundOn != from || (b.LinkedFrom != nil) != (recorded && from == at+"/") {
					t.Errorf("%+v, want found on %s", b, from)
				}
				if line := fmt.Sprintf("%s %s, linked from %s\n", answer, b.URL, from); !strings.Contains(got.Stdout,
					line) {
					t.Errorf("the closing table does not have %q:\n%s", line, got.Stdout)
				}
			}
			if _, table, _ := strings.Cut(got.Stdout, "Broken links"); strings.Contains(table, "200 ") ||
				strings.Contains(table, "500 ") {
				t.Errorf("the closing table names pages that are not broken links:\n%s", got.Stdout)
			}
			// A start URL that nothing links to is still named.
			if text := "the start URL " + at + "/lost-start gave no page (status 404)"; !slices.Contains(rep.Warnings,
				text) {
				t.Errorf("warnings %q do not have %q", rep.Warnings, text)
			}
		})
	}
}
