package traps

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// The traps of docs/traps.md and of docs/sitemap-jsonl.md are those of the program.
func TestTrapsAreDocumented(t *testing.T) {
	want := []string{Length, Repeats, Params, Combinations, Ineffective, Sequence}
	for name, row := range map[string]string{
		"traps.md":         "(?m)^\\| `([a-z_]+)` \\| [0-9]",
		"sitemap-jsonl.md": "(?m)^\\| `trap` \\| .* Which: (.*) \\|$",
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, found := range regexp.MustCompile(row).FindAllStringSubmatch(string(text), -1) {
			have = append(have, regexp.MustCompile(`[a-z_]+`).FindAllString(found[1], -1)...)
		}
		if !slices.Equal(have, want) {
			t.Errorf("docs/%s has the traps %q, the program %q", name, have, want)
		}
	}
}
