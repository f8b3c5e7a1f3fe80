package page

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
)

var update = flag.Bool("update", false, "write the documents again")

// comments are the comments above the fields of a struct that is defined in a file, by the fields' names.
func comments(t *testing.T, file, name string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			for _, id := range field.Names {
				found[id.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
			}
		}
		return false
	})
	return found
}

// typeName is how the documentation names the type of a field.
func typeName(t *testing.T, of reflect.Type) string {
	switch of {
	case reflect.TypeFor[string](), reflect.TypeFor[weburl.URL](), reflect.TypeFor[*Hash]():
		return "text"
	case reflect.TypeFor[int](), reflect.TypeFor[*int](), reflect.TypeFor[*int64](), reflect.TypeFor[*Millis]():
		return "integer"
	case reflect.TypeFor[float64]():
		return "number"
	case reflect.TypeFor[bool]():
		return "boolean"
	case reflect.TypeFor[Time]():
		return "time"
	case reflect.TypeFor[[]string]():
		return "list of texts"
	case reflect.TypeFor[[]Alternate]():
		return "list of `{lang, url}`"
	case reflect.TypeFor[map[string]string](), reflect.TypeFor[Extracted](), reflect.TypeFor[*LineRobots]():
		return "object"
	}
	t.Fatalf("a field of type %v", of)
	return ""
}

// schemaOf is what the schema says of a field, or nothing if its type does not say enough: then it is written by hand.
func schemaOf(f reflect.StructField) string {
	element := `{ "type": "string" }`
	form := f.Tag.Get("schema")
	if form == "url" {
		element = `{ "$ref": "#/$defs/url" }`
	}
	switch f.Type {
	case reflect.TypeFor[string]():
		switch form {
		case "url":
			return element
		case "":
			return `{ "type": "string", "minLength": 1 }`
		}
	case reflect.TypeFor[*int](), reflect.TypeFor[*int64](), reflect.TypeFor[*Millis]():
		return `{ "type": "integer", "minimum": 0 }`
	case reflect.TypeFor[bool]():
		return `{ "type": "boolean" }`
	case reflect.TypeFor[Time]():
		return `{ "$ref": "#/$defs/time" }`
	case reflect.TypeFor[[]string]():
		return `{ "type": "array", "minItems": 1, "items": ` + element + ` }`
	case reflect.TypeFor[map[string]string]():
		return `{ "type": "object", "additionalProperties": ` + element + ` }`
	}
	return ""
}

// fields calls each with the fields of a struct that are in a line, in its order.
func fields(of reflect.Type, each func(name string, f reflect.StructField)) {
	for _, f := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			each(name, f)
		}
	}
}

// document reads a file of docs, and compares it with what change makes of it; -update writes that instead.
func document(t *testing.T, name string, change func(text string) string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", name)
	is, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := change(string(is))
	if want == string(is) {
		return
	}
	if !*update {
		t.Errorf("docs/%s differs from the fields of Line and Facts: run 'make docs'", name)
		return
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The tables of fields in docs/sitemap-jsonl.md are the fields and their comments.
func TestFieldsAreDocumented(t *testing.T) {
	document(t, "sitemap-jsonl.md", func(text string) string {
		text = replaceTable(t, text, "## Fields\n", reflect.TypeFor[Line]())
		text = replaceTable(t, text, "### robots\n", reflect.TypeFor[LineRobots]())
		return replaceColumns(t, text)
	})
}

// replaceColumns writes the list of the columns of sitemap.csv.
func replaceColumns(t *testing.T, text string) string {
	const heading = "The columns are\n\n"
	before, rest, found := strings.Cut(text, heading)
	_, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatalf("no list below %q", heading)
	}
	return before + heading + "`" + strings.Join(NewTable().Columns(), "` `") + "`\n\n" + after
}

func replaceTable(t *testing.T, text, heading string, of reflect.Type) string {
	const head = "| field | type | meaning | absent |\n|---|---|---|---|\n"
	before, rest, found := strings.Cut(text, heading+"\n"+head)
	_, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatalf("no table below %q", heading)
	}
	meanings := comments(t, "line.go", of.Name())
	for name, comment := range comments(t, "facts.go", "Facts") {
		if meanings[name] == "" {
			meanings[name] = comment
		}
	}
	var rows strings.Builder
	fields(of, func(name string, f reflect.StructField) {
		meaning, absent, sometimes := strings.Cut(meanings[f.Name], ". Absent: ")
		if !sometimes {
			absent = "never"
		}
		if meaning == "" {
			t.Errorf("%s.%s has no comment above it", of.Name(), f.Name)
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", name, typeName(t, f.Type), meaning, absent)
	})
	return before + heading + "\n" + head + rows.String() + "\n" + after
}

// The properties of docs/sitemap-jsonl.schema.json are the fields, in their order. What a type does not say is written
// there by hand.
func TestFieldsAreInTheSchema(t *testing.T) {
	document(t, "sitemap-jsonl.schema.json", func(text string) string {
		const begin, end = "\n  \"properties\": {\n", "\n  },\n  \"allOf\""
		before, rest, _ := strings.Cut(text, begin)
		properties, after, found := strings.Cut(rest, end)
		if !found {
			t.Fatal("no properties before allOf")
		}
		is := map[string]string{}
		starts := regexp.MustCompile(`(?m)^    "(\w+)": `).FindAllStringSubmatchIndex(properties, -1)
		for i, at := range starts {
			stop := len(properties)
			if i+1 < len(starts) {
				stop = starts[i+1][0]
			}
			is[properties[at[2]:at[3]]] = strings.TrimSuffix(strings.TrimSpace(properties[at[1]:stop]), ",")
		}
		var list []string
		fields(reflect.TypeFor[Line](), func(name string, f reflect.StructField) {
			schema := schemaOf(f)
			if schema == "" {
				schema = is[name]
			}
			if schema == "" {
				t.Errorf("write by hand what the schema says of %s", name)
			}
			list = append(list, fmt.Sprintf("    %q: %s", name, schema))
		})
		return before + begin + strings.Join(list, ",\n") + end + after
	})
}

// meaningOf is the comment of a field of Line.
func meaningOf(t *testing.T, field string) string { return comments(t, "line.go", "Line")[field] }

// The outcomes, reasons and sources of the schema and of the documentation are those of the program.
func TestOutcomesReasonsAndSourcesAreDocumented(t *testing.T) {
	outcomes := []string{}
	for _, o := range Outcomes() {
		outcomes = append(outcomes, o.String())
	}
	source, err := os.ReadFile("indexable.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := []string{}
	for _, constant := range regexp.MustCompile(`(?m)^\tNot\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		reasons = append(reasons, constant[1])
	}
	schema, err := os.ReadFile(filepath.Join("..", "..", "docs", "sitemap-jsonl.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "sitemap-jsonl.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for source := SourceStart; SourceName(source) != "unknown"; source++ {
		sources = append(sources, SourceName(source))
		if !strings.Contains(meaningOf(t, "Source"), "`"+SourceName(source)+"`") {
			t.Errorf("the comment of Line.Source does not name %s", SourceName(source))
		}
	}
	var changes []string
	for _, c := range Changes() {
		changes = append(changes, c.String())
	}
	for property, want := range map[string][]string{"outcome": outcomes, "indexable_reason": reasons, "source": sources,
		"change": changes} {
		found := regexp.MustCompile(`(?s)\n    "` + property +
			`": \{\s*"enum": \[(.*?)\]`).FindStringSubmatch(string(schema))
		if found == nil {
			t.Fatalf("the schema has no enumeration for %s", property)
		}
		var have []string
		for _, quoted := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(found[1], -1) {
			have = append(have, quoted[1])
		}
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("the schema has %s %q, the program %q", property, have, want)
		}
		for _, name := range want {
			if property != "source" && !strings.Contains(string(doc), "\n| `"+name+"` |") {
				t.Errorf("docs/sitemap-jsonl.md has no row for %s %s", property, name)
			}
		}
	}
}
