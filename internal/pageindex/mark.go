package pageindex

import "github.com/mapwright/mapwright/internal/problems"

// Mark is which problems a page has.
type Mark struct {
	Line     int64 // its number in sitemap.jsonl, from 0
	Problems problems.Set
}
