package recrawl

import (
	"fmt"
	"strconv"

	"github.com/mapwright/mapwright/internal/page"
)

// SchemaVersion stands first in every line of changes.jsonl. It changes when a field changes its meaning.
const SchemaVersion = 1

// Line is one line of changes.jsonl. A test compares its fields with docs/changes-jsonl.md.
type Line struct {
	// `1`
	SchemaVersion int `json:"schema_version"`
	// the URL
	URL string `json:"url"`
	// the generation that found the change: 1 is the first recrawl
	Generation uint32 `json:"generation"`
	// `new` `changed` `gone` `back`, as in [sitemap.jsonl](sitemap-jsonl.md#changes)
	Change string `json:"change"`
	// when it was found
	CheckedAt page.Time `json:"checked_at"`
	// what differs, by name: [below](#what-differs)
	Fields map[string]Values `json:"fields"`
}

// Values are a fact before and after. One that is not known is nil.
type Values struct {
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

// NewLine makes the line of a URL from what was recorded.
func NewLine(url string, generation uint32, change page.Change, differences []byte) (*Line, error) {
	at, all, err := DecodeDifferences(differences)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	l := &Line{SchemaVersion: SchemaVersion, URL: url, Generation: generation, Change: change.String(),
		CheckedAt: page.Time{Time: at}, Fields: map[string]Values{}}
	for _, d := range all {
		l.Fields[d.Field.String()] = Values{d.Field.value(d.Before), d.Field.value(d.After)}
	}
	return l, nil
}

// value is a stored text as JSON has it: a number or a boolean where the field is one. What is not known is nil.
func (f Field) value(text string) any {
	if text == "" {
		return nil
	}
	switch f {
	case StatusCode, ContentLength:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case NoIndex:
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	}
	return text
}
