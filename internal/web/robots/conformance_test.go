package robots

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// conformanceRows reads a file of public test vectors, one JSON object a line.
func conformanceRows[T any](t *testing.T, name string) []T {
	t.Helper()
	dir := os.Getenv("CONFORMANCE_DIR")
	if dir == "" {
		dir = filepath.Join(projectRoot(t), "..", "shared", "conformance")
	}
	f, err := os.Open(filepath.Join(dir, "robots", name))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("open conformance data: %v", err)
		}
		t.Skipf("no conformance data: %v", err)
	}
	defer f.Close()
	var rows []T
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		var row T
		if err := json.Unmarshal(s.Bytes(), &row); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rows = append(rows, row)
	}
	if err := s.Err(); err != nil || len(rows) == 0 {
		t.Fatalf("%s: %d rows, %v", name, len(rows), err)
	}
	return rows
}

func projectRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

func fileBody(t *testing.T, text, b64 string) []byte {
	t.Helper()
	if b64 == "" {
		return []byte(text)
	}
	b, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformanceMatch(t *testing.T) {
	type row struct {
		Name, Agent, URL, Robots, Tier, Note string
		RobotsB64                            string `json:"robots_b64"`
		Allowed                              bool
	}
	asserted := 0
	for i, r := range conformanceRows[row](t, "google_robotstxt.jsonl") {
		rules := Parse(fileBody(t, r.Robots, r.RobotsB64)).Agent(r.Agent)
		got := rules.Match(pathQuery(r.URL))
		if r.Tier == "contested" {
			if got.Allowed != r.Allowed {
				t.Logf("contested row %d %s: allowed %v, Google says %v (%s)", i+1, r.Name, got.Allowed, r.Allowed,
					r.Note)
			}
			continue
		}
		asserted++
		if got.Allowed != r.Allowed {
			t.Errorf("row %d %s: agent %q url %.80q: %+v, want allowed %v\n%.300s", i+1, r.Name, r.Agent, r.URL, got,
				r.Allowed, r.Robots)
		}
	}
	t.Logf("%d rows asserted", asserted)
}

func TestConformanceParse(t *testing.T) {
	type lineRow struct {
		Line         int
		Tag          string
		Typo         bool
		HasDirective *bool `json:"has_directive"`
		TooLong      *bool `json:"too_long"`
	}
	type row struct {
		Name, Robots string
		RobotsB64    string `json:"robots_b64"`
		Valid        *int   `json:"valid_directives"`
		Unknown      *int   `json:"unknown_directives"`
		Last         *int   `json:"last_line_seen"`
		Sitemaps     []string
		Lines        []lineRow
	}
	tags := map[key]string{keyUserAgent: "user-agent", keyAllow: "allow", keyDisallow: "disallow",
		keySitemap: "sitemap"}
	for i, r := range conformanceRows[row](t, "google_parse_report.jsonl") {
		body := fileBody(t, r.Robots, r.RobotsB64)
		valid, unknown, lastDirective, lastLine := 0, 0, 0, 0
		byNum := map[int]line{}
		for l := range linesOf(string(body)) {
			byNum[l.num], lastLine = l, l.num
			switch {
			case tags[l.key] != "":
				valid++
				lastDirective = l.num
			case l.text != "":
				unknown++
			}
		}
		if r.Valid != nil && valid != *r.Valid {
			t.Errorf("row %d %s: %d directives, want %d", i+1, r.Name, valid, *r.Valid)
		}
		if r.Unknown != nil && unknown != *r.Unknown {
			t.Errorf("row %d %s: %d unknown directives, want %d", i+1, r.Name, unknown, *r.Unknown)
		}
		// The two reporters that the rows come from count differently: one stops at
		// the last directive, the other at the last line.
		if r.Last != nil && *r.Last != lastDirective && *r.Last != lastLine {
			t.Errorf("row %d %s: last line %d or %d, want %d", i+1, r.Name, lastDirective, lastLine, *r.Last)
		}
		if got := Parse(body).Sitemaps(); len(r.Sitemaps) > 0 &&
			(len(got) != len(r.Sitemaps) || got[0] != r.Sitemaps[0]) {
			t.Errorf("row %d %s: sitemaps %q, want %q", i+1, r.Name, got, r.Sitemaps)
		}
		for _, want := range r.Lines {
			got := byNum[want.Line]
			tag := tags[got.key]
			if tag == "" {
				tag = "unknown"
			}
			if want.Tag == "unused" { // keys that Google knows and does not act on
				want.Tag = "unknown"
			}
			if tag != want.Tag {
				t.Errorf("row %d line %d: %s, want %s", i+1, want.Line, tag, want.Tag)
			}
			if want.HasDirective != nil && (got.text != "") != *want.HasDirective {
				t.Errorf("row %d line %d: directive %v, want %v", i+1, want.Line, got.text != "", *want.HasDirective)
			}
			if want.TooLong != nil && got.cut != *want.TooLong {
				t.Errorf("row %d line %d: too long %v, want %v", i+1, want.Line, got.cut, *want.TooLong)
			}
		}
	}
}

func TestConformanceToken(t *testing.T) {
	type row struct {
		Agent string
		Valid bool
	}
	for _, r := range conformanceRows[row](t, "google_agent_validity.jsonl") {
		if got := validToken(r.Agent); got != r.Valid {
			t.Errorf("validToken(%q) = %v, want %v", r.Agent, got, r.Valid)
		}
	}
}

func TestConformancePathAndEscape(t *testing.T) {
	type row struct{ Kind, Input, Expected string }
	for _, r := range conformanceRows[row](t, "google_path_escape.jsonl") {
		got := ""
		switch r.Kind {
		case "path_for_match":
			got = pathQuery(r.Input)
		case "escape_pattern":
			got = normalizePattern(r.Input)
		default:
			t.Fatalf("unknown kind %q", r.Kind)
		}
		if got != r.Expected {
			t.Errorf("%s of %q: %q, want %q", r.Kind, r.Input, got, r.Expected)
		}
	}
}
