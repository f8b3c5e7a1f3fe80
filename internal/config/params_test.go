package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The parameters that are removed are those of the crawl's begin, whatever the default is then.
func TestParamsStay(t *testing.T) {
	usual := Defaults(Polite)
	if !slices.Contains(usual.IgnoreParams, "utm_*") || len(usual.OnlyParams) > 0 {
		t.Fatalf("by default %v, %v", usual.IgnoreParams, usual.OnlyParams)
	}
	load := func(layers ...Layer) map[string][]string {
		t.Helper()
		loaded, err := Load(layers...)
		if err != nil {
			t.Fatal(err)
		}
		return loaded.Settings.Stored()
	}
	older := Defaults(Polite).Stored()
	delete(older, "ignore-params")
	delete(older, "only-params")
	none := load(flags("ignore-params", "none"))
	sid := load(flags("ignore-params", "default,sid", "only-params", "a,b*"))
	if got := sid["ignore-params"]; !slices.Equal(got, append(slices.Clone(usual.IgnoreParams), "sid")) {
		t.Errorf("default,sid is %v", got)
	}
	for _, c := range []struct {
		stored  map[string][]string
		over    Layer
		want    []string // ignore-params
		refusal string
	}{
		{usual.Stored(), nil, usual.IgnoreParams, ""},
		{usual.Stored(), flags("ignore-params", "default", "profile", "own-site"), usual.IgnoreParams, ""},
		{usual.Stored(), flags("ignore-params", "none"), nil, `flag --ignore-params: the crawl was begun with "utm_*,`},
		{older, flags("profile", "own-site"), nil, ""},
		{older, flags("ignore-params", "none"), nil, ""},
		{older, flags("ignore-params", "default"), nil, `flag --ignore-params: the crawl was begun without any`},
		{older, flags("only-params", "id"), nil, `flag --only-params: the crawl was begun without any`},
		{none, nil, nil, ""},
		{none, flags("ignore-params", ""), nil, ""},
		{sid, nil, append(slices.Clone(usual.IgnoreParams), "sid"), ""},
		{sid, flags("only-params", "b*,a"), nil, `flag --only-params: the crawl was begun with "a,b*"`},
	} {
		loaded, err := Resume(c.stored, []Layer{{"ignore-params": {[]string{"x"}, "environment"}}}, c.over)
		switch {
		case c.refusal != "":
			if err == nil || !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("%v: %v, want %q", c.over, err, c.refusal)
			}
		case err != nil:
			t.Errorf("%v: %v", c.over, err)
		case !slices.Equal(loaded.Settings.IgnoreParams, c.want):
			t.Errorf("%v: %v, want %v", c.over, loaded.Settings.IgnoreParams, c.want)
		}
	}
}

// docs/parameters.md lists the parameters that are removed by default.
func TestIgnoredParamsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "parameters.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := "`" + strings.Join(ignoredParams(), "` `") + "`"
	if got := strings.Join(strings.Fields(string(text)), " "); !strings.Contains(got, want) {
		t.Errorf("docs/parameters.md does not have the list %s", want)
	}
}
