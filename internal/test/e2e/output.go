package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Line is one line of sitemap.jsonl, as its documentation has it: a name that is not here must not be there.
type Line struct {
	SchemaVersion  int      `json:"schema_version"`
	URL            string   `json:"url"`
	Depth          int      `json:"depth"`
	ParentURL      string   `json:"parent_url"`
	Source         string   `json:"source"`
	DiscoveredAt   string   `json:"discovered_at"`
	CrawledAt      string   `json:"crawled_at"`
	Outcome        string   `json:"outcome"`
	StatusCode     int      `json:"status_code"`
	Error          string   `json:"error"`
	Attempts       int      `json:"attempts"`
	RedirectTo     string   `json:"redirect_to"`
	ResponseTimeMS int64    `json:"response_time_ms"`
	ContentType    string   `json:"content_type"`
	ContentLength  int64    `json:"content_length"`
	ContentHash    string   `json:"content_hash"`
	TextHash       string   `json:"text_hash"`
	Title          string   `json:"title"`
	Description    string   `json:"description"`
	H1             string   `json:"h1"`
	H1Count        int      `json:"h1_count"`
	MixedContent   []string `json:"mixed_content"`
	InSitemap      bool     `json:"in_sitemap"`
	CanonicalURL   string   `json:"canonical_url"`
	Language       string   `json:"language"`
	Hreflang       []struct {
		Lang string `json:"lang"`
		URL  string `json:"url"`
	} `json:"hreflang"`
	RobotsMeta      string            `json:"robots_meta"`
	JSONLDTypes     []string          `json:"json_ld_types"`
	OpenGraph       map[string]string `json:"open_graph"`
	WordCount       int               `json:"word_count"`
	LinkCount       int               `json:"link_count"`
	LastModified    string            `json:"last_modified"`
	PublishedAt     string            `json:"published_at"`
	ETag            string            `json:"etag"`
	Indexable       bool              `json:"indexable"`
	IndexableReason string            `json:"indexable_reason"`
	Robots          *struct {
		Evidence   string  `json:"evidence"`
		Rule       string  `json:"rule"`
		CrawlDelay float64 `json:"crawl_delay"`
		Confidence string  `json:"confidence"`
		CheckedAt  string  `json:"checked_at"`
	} `json:"robots"`
	Extracted   map[string]any `json:"extracted"`
	Images      []string       `json:"images"`
	Generation  int            `json:"generation"`
	FirstSeenAt string         `json:"first_seen_at"`
	CheckedAt   string         `json:"checked_at"`
	ChangedAt   string         `json:"changed_at"`
	Change      string         `json:"change"`
	Stale       int            `json:"stale"`
	Volatile    bool           `json:"volatile"`
	Unlinked    bool           `json:"unlinked"`
}

// Report is what tests read of report.json.
type Report struct {
	SchemaVersion int              `json:"schema_version"`
	Status        string           `json:"status"`
	Success       bool             `json:"success"`
	Reason        string           `json:"reason"`
	Generation    int              `json:"generation"`
	Errors        []string         `json:"errors"`
	Warnings      []string         `json:"warnings"`
	URLs          int              `json:"urls"`
	Pages         int              `json:"pages_this_run"`
	Outcomes      map[string]int   `json:"outcomes"`
	StatusClasses map[string]int   `json:"status_classes"`
	Indexable     int              `json:"indexable"`
	SkippedLinks  map[string]int   `json:"skipped_links"`
	Changes       map[string]int64 `json:"changes"`
	BlockedHosts  []map[string]any `json:"blocked_hosts"`
	Files         []string         `json:"files"`
	Problems      []struct {
		Code   string `json:"code"`
		Result string `json:"result"`
		Count  int    `json:"count"`
	} `json:"problems"`
	Cluster *struct {
		Takeovers int `json:"takeovers"`
		Machines  []struct {
			Name     string `json:"name"`
			Sessions int    `json:"sessions"`
			Pages    int    `json:"pages"`
			Lost     bool   `json:"lost"`
		} `json:"machines"`
	} `json:"cluster"`
}

// ReadLines reads sitemap.jsonl, by URL.
func ReadLines(t *testing.T, dir string) map[string]Line {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, "sitemap.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := map[string]Line{}
	moment := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 16<<20)
	for n := 1; scan.Scan(); n++ {
		if !bytes.HasPrefix(scan.Bytes(), []byte(`{"schema_version":1,`)) {
			t.Fatalf("line %d of sitemap.jsonl does not begin with its version: %.80s", n, scan.Bytes())
		}
		var l Line
		dec := json.NewDecoder(bytes.NewReader(scan.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			t.Fatalf("line %d of sitemap.jsonl: %v", n, err)
		}
		if _, twice := lines[l.URL]; twice {
			t.Errorf("%s stands twice in sitemap.jsonl", l.URL)
		}
		for _, at := range []string{l.DiscoveredAt, l.CrawledAt, l.LastModified, l.FirstSeenAt, l.CheckedAt,
			l.ChangedAt} {
			if at != "" && !moment.MatchString(at) {
				t.Errorf("line %d of sitemap.jsonl: time %q is not of the one form", n, at)
			}
		}
		lines[l.URL] = l
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// ReadReport reads report.json.
func ReadReport(t *testing.T, dir string) Report {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	return Parse[Report](t, string(text))
}

// Parse reads one JSON value, and wants nothing after it.
func Parse[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return v
}

// Exists says whether a file of a data directory is there.
func Exists(t *testing.T, dir, name string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}
