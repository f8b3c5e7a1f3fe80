package page

import (
	"fmt"
	"time"
)

// SchemaVersion stands first in every line of sitemap.jsonl. It changes when a field changes its meaning.
const SchemaVersion = 1

// Time is a moment as sitemap.jsonl writes it: RFC 3339, UTC, milliseconds.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// MarshalJSON writes the one form.
func (t Time) MarshalJSON() ([]byte, error) {
	return append(appendTime(append(make([]byte, 0, 32), '"'), t.Time), '"'), nil
}

// Text is the one form without quotes.
func (t Time) Text() string { return string(appendTime(nil, t.Time)) }

// Line is one line of sitemap.jsonl: docs/sitemap-jsonl.md says what each field means. Facts that are not known are left out.
type Line struct {
	SchemaVersion   int               `json:"schema_version"`
	URL             string            `json:"url"`
	Depth           int               `json:"depth"`
	ParentURL       string            `json:"parent_url,omitempty"`
	Source          string            `json:"source"`
	DiscoveredAt    Time              `json:"discovered_at,omitzero"`
	CrawledAt       Time              `json:"crawled_at,omitzero"`
	Outcome         string            `json:"outcome"`
	StatusCode      int               `json:"status_code,omitempty"`
	Error           string            `json:"error,omitempty"`
	Attempts        int               `json:"attempts,omitempty"`
	RedirectTo      string            `json:"redirect_to,omitempty"`
	ResponseTimeMS  *int64            `json:"response_time_ms,omitempty"`
	ContentType     string            `json:"content_type,omitempty"`
	ContentLength   *int64            `json:"content_length,omitempty"`
	ContentHash     string            `json:"content_hash,omitempty"`
	Title           string            `json:"title,omitempty"`
	Description     string            `json:"description,omitempty"`
	H1              string            `json:"h1,omitempty"`
	CanonicalURL    string            `json:"canonical_url,omitempty"`
	Language        string            `json:"language,omitempty"`
	Hreflang        []LineAlternate   `json:"hreflang,omitempty"`
	RobotsMeta      string            `json:"robots_meta,omitempty"`
	JSONLDTypes     []string          `json:"json_ld_types,omitempty"`
	OpenGraph       map[string]string `json:"open_graph,omitempty"`
	WordCount       *int              `json:"word_count,omitempty"`
	LinkCount       *int              `json:"link_count,omitempty"`
	LastModified    Time              `json:"last_modified,omitzero"`
	ETag            string            `json:"etag,omitempty"`
	Indexable       bool              `json:"indexable"`
	IndexableReason string            `json:"indexable_reason,omitempty"`
	Robots          *LineRobots       `json:"robots,omitempty"`
	Extracted       map[string]any    `json:"extracted,omitempty"`
	Images          []string          `json:"images,omitempty"`
}

// LineAlternate is one hreflang link in a line.
type LineAlternate struct {
	Lang string `json:"lang"`
	URL  string `json:"url"`
}

// LineRobots is the evidence of robots.txt in a line.
type LineRobots struct {
	Evidence   string  `json:"evidence"`
	Rule       string  `json:"rule,omitempty"`
	CrawlDelay float64 `json:"crawl_delay,omitempty"` // seconds
	Confidence string  `json:"confidence"`
	CheckedAt  Time    `json:"checked_at,omitzero"`
}

// SetFacts fills the fields that come from a fetch and a parse.
func (l *Line) SetFacts(f *Facts) {
	l.Error = f.Error
	l.RedirectTo = f.RedirectTo
	l.ContentType = f.ContentType
	if f.ResponseTime >= 0 {
		ms := f.ResponseTime.Milliseconds()
		l.ResponseTimeMS = &ms
	}
	if f.ContentLength >= 0 {
		l.ContentLength = &f.ContentLength
	}
	if f.HasHash {
		l.ContentHash = fmt.Sprintf("%016x", f.ContentHash)
	}
	l.Title, l.Description, l.H1 = f.Title, f.Description, f.H1
	l.CanonicalURL, l.Language, l.RobotsMeta = f.Canonical, f.Language, f.RobotsMeta
	for _, a := range f.Hreflang {
		l.Hreflang = append(l.Hreflang, LineAlternate(a))
	}
	l.JSONLDTypes = f.JSONLDTypes
	for _, p := range f.OpenGraph {
		if l.OpenGraph == nil {
			l.OpenGraph = map[string]string{}
		}
		if _, taken := l.OpenGraph[p.Name]; !taken {
			l.OpenGraph[p.Name] = p.Value
		}
	}
	if f.Parsed {
		l.WordCount, l.LinkCount = &f.WordCount, &f.LinkCount
	}
	l.LastModified, l.ETag = Time{f.LastModified}, f.ETag
	if f.Robots.Checked {
		l.Robots = f.Robots.line()
	}
	l.Extracted = extracted(f.Extracted)
	l.Images = f.Images
	if f.Trap != "" {
		l.Error = "trap: " + f.Trap
	}
}

func (r Robots) line() *LineRobots {
	l := &LineRobots{Evidence: "robots_allowed", Rule: r.Rule, CrawlDelay: r.CrawlDelay.Seconds(), Confidence: "high", CheckedAt: Time{r.CheckedAt}}
	if !r.Allowed {
		l.Evidence = "blocked_by_robots"
	}
	if r.Low {
		l.Confidence = "low"
	}
	return l
}

// extracted is a text where a selector matched once, and a list where it matched more often.
func extracted(props []Property) map[string]any {
	if len(props) == 0 {
		return nil
	}
	out := map[string]any{}
	for _, p := range props {
		switch had := out[p.Name].(type) {
		case nil:
			out[p.Name] = p.Value
		case string:
			out[p.Name] = []string{had, p.Value}
		case []string:
			out[p.Name] = append(had, p.Value)
		}
	}
	return out
}
