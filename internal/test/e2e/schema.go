package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// FitsSchema holds every line of a crawl's sitemap.jsonl against the schema, and returns how many there are of each
// outcome.
func FitsSchema(t *testing.T, dir string) map[string]int {
	t.Helper()
	s := ReadSchema(t)
	file, err := os.Open(filepath.Join(dir, "sitemap.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	outcomes, wrong := map[string]int{}, 0
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		if err := s.CheckLine(scan.Bytes()); err != nil && wrong < 10 {
			wrong++
			t.Errorf("%v in %s", err, scan.Bytes())
		}
		outcomes[Parse[Line](t, scan.Text()).Outcome]++
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return outcomes
}

// Schema is a JSON Schema, or a part of one. It knows the few keywords that ours uses, and refuses any other, so that
// nothing is written there that is not checked.
type Schema struct {
	never                bool // the schema false
	defs                 map[string]*Schema
	ref                  string
	types                string
	constant             any
	hasConstant          bool
	Enum                 []any
	pattern              *regexp.Regexp
	minimum, maximum     *float64
	minLength, minItems  int
	required             []string
	Properties           map[string]*Schema
	additionalProperties *Schema
	items                *Schema
	allOf, anyOf         []*Schema
	cond, then, other    *Schema
}

// ReadSchema reads the schema of sitemap.jsonl.
func ReadSchema(t *testing.T) *Schema { return ReadSchemaOf(t, "sitemap-jsonl") }

// ReadSchemaOf reads the schema that docs has under a name.
func ReadSchemaOf(t *testing.T, name string) *Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", name+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Schema{}
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatalf("%s.schema.json: %v", name, err)
	}
	return s
}

func (s *Schema) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "false":
		s.never = true
		return nil
	case "true":
		return nil
	}
	var words map[string]json.RawMessage
	if err := json.Unmarshal(text, &words); err != nil {
		return err
	}
	for word, value := range words {
		into, known := map[string]any{
			"$defs": &s.defs, "$ref": &s.ref, "type": &s.types, "const": &s.constant, "enum": &s.Enum,
			"minimum": &s.minimum, "maximum": &s.maximum,
			"minLength": &s.minLength, "minItems": &s.minItems, "required": &s.required, "properties": &s.Properties,
			"additionalProperties": &s.additionalProperties,
			"items":                &s.items, "allOf": &s.allOf, "anyOf": &s.anyOf, "if": &s.cond, "then": &s.then,
			"else": &s.other,
		}[word]
		var pattern string
		switch word {
		case "$schema", "$id", "title":
			continue
		case "const":
			s.hasConstant = true
		case "pattern":
			into, known = &pattern, true
		}
		if !known {
			return fmt.Errorf("the keyword %q is not checked", word)
		}
		if err := json.Unmarshal(value, into); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
		if pattern != "" {
			var err error
			if s.pattern, err = regexp.Compile(pattern); err != nil {
				return err
			}
		}
	}
	return nil
}

// check says what is wrong with a value, as encoding/json decodes it into an any. The root is for references.
func (s *Schema) check(root *Schema, at string, v any) error {
	if s.never {
		return fmt.Errorf("%s must not be there", at)
	}
	if name, ok := strings.CutPrefix(s.ref, "#/$defs/"); ok {
		if err := root.defs[name].check(root, at, v); err != nil {
			return err
		}
	}
	if s.types != "" && !isType(s.types, v) {
		return fmt.Errorf("%s is %v, not of type %s", at, v, s.types)
	}
	if s.hasConstant && v != s.constant {
		return fmt.Errorf("%s is %v, not %v", at, v, s.constant)
	}
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s is %v, none of %v", at, v, s.Enum)
	}
	switch v := v.(type) {
	case string:
		if len(v) < s.minLength || s.pattern != nil && !s.pattern.MatchString(v) {
			return fmt.Errorf("%s is %q, which is too short or not of the form", at, v)
		}
	case float64:
		if s.minimum != nil && v < *s.minimum || s.maximum != nil && v > *s.maximum {
			return fmt.Errorf("%s is %v, out of bounds", at, v)
		}
	case []any:
		if err := s.checkItems(root, at, v); err != nil {
			return err
		}
	case map[string]any:
		if err := s.checkObject(root, at, v); err != nil {
			return err
		}
	}
	return s.checkParts(root, at, v)
}

func isType(name string, v any) bool {
	switch v := v.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return name == "null"
}

func (s *Schema) checkItems(root *Schema, at string, list []any) error {
	if len(list) < s.minItems {
		return fmt.Errorf("%s has %d items", at, len(list))
	}
	for i, item := range list {
		if s.items == nil {
			break
		}
		if err := s.items.check(root, fmt.Sprintf("%s[%d]", at, i), item); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) checkObject(root *Schema, at string, object map[string]any) error {
	for _, name := range s.required {
		if _, ok := object[name]; !ok {
			return fmt.Errorf("%s.%s is missing", at, name)
		}
	}
	for name, value := range object {
		rule := s.Properties[name]
		if rule == nil {
			rule = s.additionalProperties
		}
		if rule == nil {
			continue
		}
		if err := rule.check(root, at+"."+name, value); err != nil {
			return err
		}
	}
	return nil
}

// checkParts checks the schemas that a schema is put together of.
func (s *Schema) checkParts(root *Schema, at string, v any) error {
	for _, part := range s.allOf {
		if err := part.check(root, at, v); err != nil {
			return err
		}
	}
	if s.anyOf != nil && !slices.ContainsFunc(s.anyOf, func(part *Schema) bool {
		return part.check(root, at,
			v) == nil
	}) {
		return fmt.Errorf("%s is %v, which fits none of its forms", at, v)
	}
	branch := s.other
	if s.cond == nil {
		return nil
	}
	if s.cond.check(root, at, v) == nil {
		branch = s.then
	}
	if branch == nil {
		return nil
	}
	return branch.check(root, at, v)
}

// CheckLine holds one line against the schema.
func (s *Schema) CheckLine(text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return s.check(s, "line", v)
}
