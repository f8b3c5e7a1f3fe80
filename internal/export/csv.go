package export

import (
	"strconv"
	"unicode/utf8"

	"github.com/mapwright/mapwright/internal/page"
)

// csvHeader names the columns: the fields of a line that are single values.
func csvHeader() []string {
	return []string{
		"url", "depth", "parent_url", "source", "discovered_at", "crawled_at", "outcome", "status_code", "error", "attempts", "redirect_to", "response_time_ms",
		"content_type", "content_length", "content_hash", "title", "description", "h1", "canonical_url", "language", "robots_meta", "word_count", "link_count",
		"last_modified", "etag", "indexable", "indexable_reason",
	}
}

func csvRow(l *page.Line) []string {
	row := []string{
		l.URL, strconv.Itoa(l.Depth), l.ParentURL, l.Source, csvTime(l.DiscoveredAt), csvTime(l.CrawledAt), l.Outcome, csvCount(l.StatusCode), l.Error, csvCount(l.Attempts),
		l.RedirectTo, csvNumber(l.ResponseTimeMS), l.ContentType, csvNumber(l.ContentLength), l.ContentHash, l.Title, l.Description, l.H1, l.CanonicalURL,
		l.Language, l.RobotsMeta, csvNumber(l.WordCount), csvNumber(l.LinkCount), csvTime(l.LastModified), l.ETag, strconv.FormatBool(l.Indexable), l.IndexableReason,
	}
	for i, cell := range row {
		row[i] = csvCell(cell)
	}
	return row
}

// csvCell makes a text safe to open in a spreadsheet: control characters become escapes, and a text that a spreadsheet would take for a
// formula gets an apostrophe before it, which spreadsheets read as "this is text".
func csvCell(text string) string {
	if text == "" {
		return ""
	}
	switch r, _ := utf8.DecodeRuneInString(text); r {
	case '=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠':
		text = "'" + text
	}
	return page.EscapeControls(text)
}

func csvTime(t page.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Text()
}

func csvCount(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func csvNumber[T int | int64](p *T) string {
	if p == nil {
		return ""
	}
	return strconv.FormatInt(int64(*p), 10)
}
