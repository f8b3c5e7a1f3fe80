package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the document again")

// The table in docs/settings.md is the table of settings.
func TestSettingsAreDocumented(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "settings.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- table -->\n"
	before, _, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("docs/settings.md has no line %q", mark)
	}
	defaults := Defaults(Polite)
	defaults.Shards = 0 // depends on the machine
	var b strings.Builder
	b.WriteString(before + mark)
	var group Group
	for _, e := range defaults.Table() {
		if e.Group != group {
			group = e.Group
			fmt.Fprintf(&b, "\n## %s\n\n| key | kind | default | range | permission | free | meaning "+
				"|\n|---|---|---|---|---|---|---|\n", group)
		}
		value := strings.ReplaceAll(fmt.Sprint(e.Value), "|", `\|`)
		if value != "" {
			value = "`" + value + "`"
		}
		if e.Name == "shards" {
			value = "one per CPU"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | `%s` | %s | %s |\n", FileKey(e.Name), e.Value.Type(), value,
			rangeText(e.Value), e.Permission, freeText(e.Free), e.Usage)
	}
	b.WriteString("\n## Short forms\n\n| key | kind | meaning |\n|---|---|---|\n")
	for _, s := range Shorts() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", FileKey(s.Name), s.Kind, s.Usage)
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != string(text) {
		t.Error("docs/settings.md differs from the table of settings: run 'make docs'")
	}
}

func rangeText(v Value) string {
	switch v := v.(type) {
	case numberValue[int]:
		return fmt.Sprintf("%d to %d", v.min, v.max)
	case numberValue[float64]:
		return fmt.Sprintf("%v to %v", v.min, v.max)
	case numberValue[time.Duration]:
		return fmt.Sprintf("%v to %v", v.min, v.max)
	case numberValue[int64]:
		return fmt.Sprintf("%s to %s", number(&v.min, 0, 0, 0), number(&v.max, 0, 0, 0))
	}
	return ""
}

func freeText(r *Range) string {
	switch {
	case r == nil:
		return ""
	case r.AtMost == nil:
		return fmt.Sprintf("%.0f and more", r.AtLeast)
	}
	return fmt.Sprintf("%.0f to %.0f", r.AtLeast, *r.AtMost)
}
