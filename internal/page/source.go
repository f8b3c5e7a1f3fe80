package page

// Sources of links, as numbers in the store. Append, never reorder.
const (
	SourceStart uint8 = iota
	SourceLink
	SourceRedirect
	SourceSitemap
	SourceCT
	SourceCommonCrawl
)

// IsListSource reports whether URLs of a source were listed by a user or by the site itself. They are finite.
func IsListSource(source uint8) bool { return source == SourceStart || source == SourceSitemap }

// SourceName is a source's name in sitemap.jsonl.
func SourceName(source uint8) string {
	names := [...]string{"start", "link", "redirect", "sitemap", "ct", "commoncrawl"}
	if int(source) < len(names) {
		return names[source]
	}
	return "unknown"
}
