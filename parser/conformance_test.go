package parser

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// conformanceRows calls fn for every row of a file of public test vectors.
func conformanceRows[Row any](t *testing.T, name string, fn func(t *testing.T, row Row)) {
	t.Helper()
	dir := os.Getenv("CONFORMANCE_DIR")
	if dir == "" {
		dir = filepath.Join(projectRoot(t), "../shared/conformance")
	}
	f, err := os.Open(filepath.Join(dir, "html", name))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("conformance data is missing: %v", err)
		}
		t.Skipf("conformance data is missing: %v", err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	rows := 0
	for ; in.Scan(); rows++ {
		var row Row
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			t.Fatalf("%s, row %d: %v", name, rows+1, err)
		}
		fn(t, row)
	}
	if err := in.Err(); err != nil || rows == 0 {
		t.Fatalf("%s: %d rows, error %v", name, rows, err)
	}
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
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

func TestConformanceTokenizer(t *testing.T) {
	type row struct {
		Name, Input string
		StartTags   [][2]any `json:"start_tags"`
	}
	conformanceRows(t, "html5lib_tokenizer_attrs.jsonl", func(t *testing.T, r row) {
		got := tokens([]byte(r.Input)).tags
		if len(got) != len(r.StartTags) {
			t.Errorf("%s: %q has start tags %v, want %v", r.Name, r.Input, got, r.StartTags)
			return
		}
		for i, want := range r.StartTags {
			attrs := want[1].(map[string]any)
			ok := got[i].name == want[0].(string) && len(got[i].attrs) == len(attrs)
			for _, a := range got[i].attrs {
				ok = ok && attrs[a[0]] == a[1]
			}
			if !ok {
				t.Errorf("%s: %q has start tag %v, want %v", r.Name, r.Input, got[i], want)
			}
		}
	})
}

func TestConformanceTreeLinks(t *testing.T) {
	// A tree builder clones a elements that a table or a formatting element
	// interrupts. The page has each of them once.
	cloned := []string{"tests1.dat#78", "tests1.dat#80", "tests26.dat#1"}
	type row struct {
		Name, HTML string
		Hrefs      []string `json:"a_href"`
	}
	p := newParser(t, Options{})
	conformanceRows(t, "html5lib_tree_links.jsonl", func(t *testing.T, r row) {
		want := r.Hrefs
		if slices.Contains(cloned, r.Name) {
			want = distinct(want)
		}
		var pg Page
		parse(t, p, &pg, Input{Body: []byte(r.HTML)})
		got := []string{}
		for _, l := range pg.Links {
			if l.Kind == KindA {
				got = append(got, l.Href)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: hrefs of %q are %q, want %q", r.Name, r.HTML, got, want)
		}
	})
}

func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func TestConformanceBaseAndRefresh(t *testing.T) {
	type row struct {
		Name, Fn, HTML, Base, Encoding string
		HTMLBase64                     []byte                `json:"html_b64"`
		IgnoreTags                     *[]string             `json:"ignore_tags"`
		ExpectedBase                   string                `json:"expected_base"`
		ExpectedRefresh                struct{ URL *string } `json:"expected_refresh"`
	}
	// Rows that ask for something else than the standard and this package do.
	leftOut := func(r row) string {
		switch {
		case r.Name == "test_get_meta_refresh_unterminated_tag" && strings.HasSuffix(r.HTML, `"`):
			return "a tag that the end of the input cuts off is no tag in the standard"
		case r.Name == "test_inside_noscript" && r.IgnoreTags == nil:
			return "what is inside noscript counts, because no script is run"
		case r.Name == "test_inside_script" && r.IgnoreTags != nil:
			return "what is inside script is text"
		}
		return ""
	}
	p := newParser(t, Options{})
	skipped := 0
	conformanceRows(t, "w3lib_base_and_meta_refresh.jsonl", func(t *testing.T, r row) {
		if reason := leftOut(r); reason != "" {
			t.Logf("%s is left out: %s", r.Name, reason)
			skipped++
			return
		}
		in := Input{Body: []byte(r.HTML), URL: canonical(t, r.Base)}
		if r.HTMLBase64 != nil {
			in.Body = r.HTMLBase64
			if r.Encoding != "" {
				in.Encoding = charmap.Windows1252
				in.Body, _ = in.Encoding.NewDecoder().Bytes(in.Body)
			}
		}
		var pg Page
		parse(t, p, &pg, in)
		if r.Fn == "get_base_url" {
			if want := canonical(t, r.ExpectedBase); pg.Base != want {
				t.Errorf("%s: base of %q is %q, want %q", r.Name, in.Body, pg.Base, want)
			}
			return
		}
		var got, want URL
		for _, l := range pg.Links {
			if l.Kind == KindRefresh {
				got = l.URL
				break
			}
		}
		if r.ExpectedRefresh.URL != nil {
			want = canonical(t, *r.ExpectedRefresh.URL)
		}
		if got != want {
			t.Errorf("%s: refresh of %q is %q, want %q", r.Name, in.Body, got, want)
		}
	})
	if skipped > 3 {
		t.Errorf("%d rows are left out, want at most 3", skipped)
	}
}

func canonical(t testing.TB, raw string) URL {
	t.Helper()
	if raw == "" {
		return URL{}
	}
	u, err := weburl.Parse(raw)
	if err != nil {
		t.Fatalf("parse %q: %v", raw, err)
	}
	return u
}
