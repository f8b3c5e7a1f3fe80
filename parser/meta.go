package parser

import (
	"net/http"
	"time"
)

// meta takes facts from a meta element.
func (w *walker) meta() {
	t := &w.tag
	if !t.has(attrContent) {
		return
	}
	if t.has(attrHTTPEquiv) {
		switch kind := trimSpace(w.value(attrHTTPEquiv)); {
		case equalFold(kind, "refresh"):
			if url := refreshURL(w.value(attrContent)); len(url) > 0 {
				w.addLink(KindRefresh, url, nil)
			}
		case equalFold(kind, "content-language"):
			w.setLanguage(w.value(attrContent), languageMeta)
		case equalFold(kind, "last-modified"):
			w.setModified(w.value(attrContent), modifiedMeta)
		}
	}
	if t.has(attrNamed) {
		w.named(trimSpace(w.value(attrNamed)))
	}
	if t.has(attrProperty) {
		w.property(trimSpace(w.value(attrProperty)))
	}
}

// named takes the fact that a meta element with this name states.
func (w *walker) named(name []byte) {
	f := &w.facts
	switch {
	case equalFold(name, "description"):
		w.texts.add(w.written(attrContent))
		if f.description.start == f.description.end {
			w.passing.begin(maxDescription)
			w.passing.addDecoded(w.value(attrContent))
			f.description = w.keep(w.passing.end())
		}
	case equalFold(name, "robots"), equalFold(name, w.parser.token):
		f.robots.add(w.value(attrContent))
	case equalFold(name, "last-modified"):
		w.setModified(w.value(attrContent), modifiedMeta)
	default:
		// Many pages write name where Open Graph requires property.
		w.property(name)
	}
}

// property takes the fact that a meta element with this property states.
func (w *walker) property(name []byte) {
	f := &w.facts
	switch {
	case equalFold(name, "article:modified_time"):
		w.setModified(w.value(attrContent), modifiedArticle)
	case equalFold(name, "article:published_time"):
		if f.published.IsZero() && f.dates < maxDates {
			f.dates++
			if t, ok := parseTime(w.value(attrContent)); ok {
				f.published = t
			}
		}
	case hasPrefixFold(name, "og:"):
		switch {
		case equalFold(name, "og:updated_time"):
			w.setModified(w.value(attrContent), modifiedGraph)
		case equalFold(name, "og:title"), equalFold(name, "og:description"):
			w.texts.add(w.written(attrContent))
		case equalFold(name, "og:image"), equalFold(name, "og:video"), equalFold(name, "og:audio"):
			w.texts.addSource(w.written(attrContent))
		}
		if len(f.openGraph) >= maxProperties || len(name) > maxProperty {
			return
		}
		start := len(w.arena)
		for _, c := range name {
			w.arena = append(w.arena, lower(c))
		}
		kept := span{uint32(start), uint32(len(w.arena))}
		w.passing.begin(maxProperty)
		w.passing.addDecoded(w.value(attrContent))
		f.openGraph = append(f.openGraph, propertyRecord{kept, w.keep(w.passing.end())})
	}
}

// The sources of a page's date, worst first.
const (
	modifiedMeta = 1 + iota
	modifiedJSONLD
	modifiedGraph
	modifiedArticle
)

// setModified takes the date of the page's last change from a source.
func (w *walker) setModified(value []byte, rank uint8) {
	f := &w.facts
	if rank <= f.modifiedRank || f.dates >= maxDates {
		return
	}
	f.dates++
	if t, ok := parseTime(value); ok {
		f.modified, f.modifiedRank = t, rank
	}
}

// parseTime reads a date in one of the forms that pages use, by default in UTC.
func parseTime(value []byte) (time.Time, bool) {
	value = trimSpace(value)
	if len(value) < len("2006-01-02") || len(value) > 64 {
		return time.Time{}, false
	}
	s := string(value)
	for _, layout := range []string{
		time.RFC3339, "2006-01-02", "2006-01-02T15:04:05-0700", "2006-01-02T15:04:05",
		"2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			t = t.UTC()
			return t, t.Year() >= 0 && t.Year() <= 9999 // by its zone it may be outside
		}
	}
	if t, err := http.ParseTime(s); err == nil {
		return t.UTC(), true
	}
	return time.Time{}, false
}
