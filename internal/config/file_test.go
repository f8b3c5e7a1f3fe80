package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A file in a form that cannot be read as settings is refused as a whole, so that none of its settings is lost
// silently.
func TestFileForms(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		include    []string // what is read
		fault      string   // what the error says; empty means that there is none
	}{
		{"one document", "---\ninclude: [a, b]\n...\n", []string{"a", "b"}, ""},
		{"alias of a list", "exclude: &x [a, b]\ninclude: *x\n", []string{"a", "b"}, ""},
		{"alias in a list", "user_agent: &x a\ninclude: [*x, b]\n", []string{"a", "b"}, ""},
		{"two documents", "include: a\n---\nprofile: safe\n", nil, "line 2: a second document begins"},
		{"second document with a fault", "include: a\n---\nprofile: [\n", nil, "yaml: "},
		{"list that holds itself", "include: &x [*x]\n", nil, "line 1: include must be a value or a list of values"},
		{"lists that hold each other", "exclude: &x [a, &y [*x]]\ninclude: *y\n", nil,
			"line 2: include must be a value or a list of values"},
		{"alias of a list for one value", "include: &x [a]\nuser_agent: *x\n", []string{"a"},
			"line 2: user_agent takes one value, not a list"},
		{"nothing", "# nothing\n", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.yml")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			layer, err := FromFile(path)
			if got := layer["include"].Texts; !slices.Equal(got, tt.include) {
				t.Errorf("include %q, want %q", got, tt.include)
			}
			if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("error %v, want %q", err, tt.fault)
			}
		})
	}
}
