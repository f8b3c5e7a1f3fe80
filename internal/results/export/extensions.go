package export

import (
	"cmp"
	"path"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// videoOf is the film that a page names by its Open Graph properties. It is nil if a field that the extension requires
// is not known.
func videoOf(l *page.Line) *sitemap.Video {
	og := l.OpenGraph
	film := address(og, "og:video:secure_url", "og:video:url", "og:video")
	v := &sitemap.Video{Thumbnail: address(og, "og:image:secure_url", "og:image:url", "og:image"),
		Title: textOf(og["og:title"], l.Title), Description: textOf(og["og:description"], l.Description)}
	if film == "" || film == l.URL.String() || v.Thumbnail == "" || v.Title == "" || v.Description == "" {
		return nil
	}
	switch kind := strings.ToLower(strings.TrimSpace(og["og:video:type"])); {
	case strings.HasPrefix(kind, "video/"), kind == "" && isFilm(film):
		v.Content = film
	case strings.HasPrefix(kind, "text/html"):
		v.Player = film
	default:
		return nil
	}
	return v
}

// textOf is the first text that is more than spaces.
func textOf(texts ...string) (text string) {
	for _, t := range texts {
		text = cmp.Or(text, strings.TrimSpace(t))
	}
	return text
}

// address is the first of some properties that is an absolute URL.
func address(og map[string]string, names ...string) string {
	for _, name := range names {
		if u, err := weburl.Parse(og[name]); err == nil && strings.Contains(og[name], "://") {
			return u.String()
		}
	}
	return ""
}

// isFilm reports whether an address ends like those of files with films.
func isFilm(address string) bool {
	u, err := weburl.Parse(address)
	if err != nil {
		return false
	}
	switch strings.ToLower(path.Ext(u.Path())) {
	case ".mp4", ".m4v", ".webm", ".ogv", ".mov", ".mpg", ".mpeg", ".avi", ".wmv", ".flv", ".mkv", ".3gp":
		return true
	}
	return false
}

// newsAge is how old an article may be to be news for search engines.
const newsAge = 48 * time.Hour

// newsOf is a page as an article that was published in the two days before a time. It is nil if it was not, or if a
// field that the extension requires is not known.
func newsOf(l *page.Line, now time.Time) *sitemap.News {
	n := &sitemap.News{Publication: textOf(l.OpenGraph["og:site_name"]), Language: newsLanguage(l.Language),
		Title: textOf(l.OpenGraph["og:title"], l.Title), At: l.PublishedAt.Time}
	if n.At.IsZero() || n.At.After(now) || now.Sub(n.At) > newsAge || n.Publication == "" || n.Language == "" ||
		n.Title == "" {
		return nil
	}
	return n
}

// newsLanguage is the language of a page in the form of the extension: two or three letters, or zh-cn or zh-tw.
func newsLanguage(tag string) string {
	tag = strings.ToLower(tag)
	if tag == "zh-cn" || tag == "zh-tw" {
		return tag
	}
	language, _, _ := strings.Cut(tag, "-")
	if len(language) < 2 || len(language) > 3 || strings.Trim(language, "abcdefghijklmnopqrstuvwxyz") != "" {
		return ""
	}
	return language
}
