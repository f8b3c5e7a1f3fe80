package recrawl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tables of docs/changes-jsonl.md and the properties of its schema are the fields of a line and the facts that are
// compared.
func TestChangesAreDocumented(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var of []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Line]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of = append(of, name)
	}
	var compared []string
	for _, f := range Fields() {
		compared = append(compared, f.String())
	}
	sections := strings.SplitN(string(read("changes-jsonl.md")), "\n## What differs\n", 2)
	if len(sections) != 2 {
		t.Fatal("no section on what differs")
	}
	for i, want := range [][]string{of, compared} {
		var rows []string
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(sections[i], -1) {
			rows = append(rows, row[1])
		}
		if !slices.Equal(rows, want) {
			t.Errorf("the table has %q, the program %q", rows, want)
		}
	}
	var schema struct {
		Required   []string
		Properties map[string]struct{ Properties map[string]any }
	}
	if err := json.Unmarshal(read("changes-jsonl.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(schema.Required, of) || len(schema.Properties) != len(of) ||
		len(schema.Properties["fields"].Properties) != len(compared) {
		t.Errorf("the schema has %q, %d properties and %d facts", schema.Required, len(schema.Properties),
			len(schema.Properties["fields"].Properties))
	}
	for _, name := range compared {
		if schema.Properties["fields"].Properties[name] == nil {
			t.Errorf("the schema does not have %s", name)
		}
	}
}
