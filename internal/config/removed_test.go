package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Settings that are constants now are ignored with a warning, wherever an earlier version took them.
func TestRemovedSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yml")
	if err := os.WriteFile(path, []byte("trap_barren: 0\nmax-sitemaps: 3\nmax_urls: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := FromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	environ := []string{"MAPWRIGHT_HOT_SET_MB=8", "MAPWRIGHT_LOG_LEVEL=debug"}
	env, err := FromEnv(environ)
	if err != nil || len(UnknownEnv(environ)) > 0 {
		t.Fatal(err, UnknownEnv(environ))
	}
	want := []string{"file " + path + " max-sitemaps is ignored", "file " + path + " trap_barren is ignored",
		"environment MAPWRIGHT_HOT_SET_MB is ignored: it is no setting any more; its value is always 256"}
	loaded := mustLoad(t, file, env)
	checkWarnings(t, loaded.Warnings, want)
	if loaded.Settings.MaxURLs != 7 || !loaded.Settings.Traps {
		t.Errorf("%+v", loaded.Settings)
	}
	resumed, err := Resume(map[string][]string{"commit-batch": {"5000"}, "commit-interval": {"1s"}},
		[]Layer{env}, file)
	if err != nil {
		t.Fatal(err)
	}
	checkWarnings(t, resumed.Warnings, append([]string{"the crawl's commit-interval is ignored: "}, want...))
	layer, _ := FromJSON([]byte(`{"trap_values": 3, "hot_set_mb": ["x"]}`),
		func(field, _, format string, args ...any) { t.Errorf("%s: "+format, append([]any{field}, args...)...) })
	submitted := mustLoad(t, layer)
	checkWarnings(t, submitted.Warnings, []string{"settings.hot_set_mb is ignored", "settings.trap_values is ignored"})
	for name := range removed() {
		if Removed(name) == "" || Removed(name+"x") != "" {
			t.Errorf("%s: %q", name, Removed(name))
		}
	}
}

func checkWarnings(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("warnings %q, want %q", got, want)
	}
}

// A plan of the version before these settings were removed is read: it holds all of them. The values that differ from
// the constants give a warning each.
func TestPlanOfAnEarlierVersion(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "plan-before-constants.json"))
	if err != nil {
		t.Fatal(err)
	}
	var plan struct{ Settings map[string][]string }
	if err := json.Unmarshal(text, &plan); err != nil {
		t.Fatal(err)
	}
	for name := range removed() {
		if len(plan.Settings[name]) == 0 {
			t.Errorf("the plan has no %s", name)
		}
	}
	loaded, err := Resume(plan.Settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkWarnings(t, loaded.Warnings, []string{"the crawl's commit-interval is ignored",
		"the crawl's max-sitemaps is ignored", "the crawl's trap-values is ignored"})
	if s := loaded.Settings; s.MaxURLs != 12 || s.Profile != OwnSite || !s.Traps {
		t.Errorf("%+v", s)
	}
}
