package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schema is a JSON Schema, or a part of one. It knows the few keywords that ours uses, and refuses any other, so that
// nothing is written there that is not checked.
type schema struct {
	never                bool // the schema false
	defs                 map[string]*schema
	ref                  string
	types                string
	constant             any
	hasConstant          bool
	enum                 []any
	pattern              *regexp.Regexp
	minimum, maximum     *float64
	minLength, minItems  int
	required             []string
	properties           map[string]*schema
	additionalProperties *schema
	items                *schema
	allOf, anyOf         []*schema
	cond, then, other    *schema
}

// readSchema reads the schema of sitemap.jsonl.
func readSchema(t *testing.T) *schema { return readSchemaOf(t, "sitemap-jsonl") }

// readSchemaOf reads the schema that docs has under a name.
func readSchemaOf(t *testing.T, name string) *schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := &schema{}
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatalf("%s.schema.json: %v", name, err)
	}
	return s
}

func (s *schema) UnmarshalJSON(text []byte) error {
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
			"$defs": &s.defs, "$ref": &s.ref, "type": &s.types, "const": &s.constant, "enum": &s.enum,
			"minimum": &s.minimum, "maximum": &s.maximum,
			"minLength": &s.minLength, "minItems": &s.minItems, "required": &s.required, "properties": &s.properties,
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
func (s *schema) check(root *schema, at string, v any) error {
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
	if s.enum != nil && !slices.Contains(s.enum, v) {
		return fmt.Errorf("%s is %v, none of %v", at, v, s.enum)
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

func (s *schema) checkItems(root *schema, at string, list []any) error {
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

func (s *schema) checkObject(root *schema, at string, object map[string]any) error {
	for _, name := range s.required {
		if _, ok := object[name]; !ok {
			return fmt.Errorf("%s.%s is missing", at, name)
		}
	}
	for name, value := range object {
		rule := s.properties[name]
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
func (s *schema) checkParts(root *schema, at string, v any) error {
	for _, part := range s.allOf {
		if err := part.check(root, at, v); err != nil {
			return err
		}
	}
	if s.anyOf != nil && !slices.ContainsFunc(s.anyOf, func(part *schema) bool {
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

// checkLine holds one line against the schema.
func (s *schema) checkLine(text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return s.check(s, "line", v)
}

// The checker itself finds what is wrong.
func TestSchemaChecker(t *testing.T) {
	t.Parallel()
	s := readSchema(t)
	const good = `{"schema_version":1,"url":"http://x.test/","depth":0,"source":"start","discovered_at":"2026-03-01T12:00:00.000Z","outcome":"pending","indexable":false,"indexable_reason":"not_fetched","generation":0,"first_seen_at":"2026-03-01T12:00:00.000Z"}`
	if err := s.checkLine([]byte(good)); err != nil {
		t.Error(err)
	}
	for _, change := range [][2]string{
		{`"schema_version":1`, `"schema_version":2`}, {`"http://x.test/"`, `"http://x.test"`},
		{`"http://x.test/"`, `"http://x.test/#a"`}, {`"depth":0`, `"depth":-1`}, {`"depth":0`, `"depth":0.5`},
		{`"start"`, `"begin"`}, {`00.000Z`, `00Z`}, {`"pending"`, `"ok"`}, {`"pending"`, `"waiting"`},
		{`"not_fetched"`, `"status"`}, {`,"indexable_reason":"not_fetched"`, ``},
		{`"indexable":false`, `"indexable":true`}, {`"depth":0,`, ``}, {`"depth":0`, `"depth":"0"`},
		{`"depth":0`, `"depth":0,"colour":"red"`}, {`"depth":0`, `"depth":0,"status_code":200`},
		{`"generation":0`, `"generation":-1`}, {`"generation":0,`, ``},
		{`"generation":0`, `"generation":0,"change":"new"`}, {`"generation":0`, `"generation":0,"stale":0`},
		{`"depth":0`, `"depth":0,"title":""`}, {`"depth":0`, `"depth":0,"images":[]`},
		{`"depth":0`, `"depth":0,"images":["x"]`}, {`"depth":0`, `"depth":0,"extracted":{"a":["one"]}`},
	} {
		if err := s.checkLine([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("%s instead of %s is accepted", change[1], change[0])
		}
	}
	if err := json.Unmarshal([]byte(`{"maxItems": 3}`), &schema{}); err == nil {
		t.Error("a keyword that is not checked is accepted")
	}
}
