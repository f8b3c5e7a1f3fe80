package ui

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/words"
)

// Charts are the charts of a report, in the order in which they are shown.
func Charts(rep *report.Report) []template.HTML {
	all := []template.HTML{statusClasses(rep), notIndexable(rep)}
	if c := rep.ClickDepths; c != nil && c.Known {
		all = append(all, clickDepths(c))
	}
	if t := rep.ResponseTimes; t != nil {
		all = append(all, responseTimes(t))
	}
	if s := rep.Figures.Sections; s != nil {
		all = append(all, sectionTimes(s), sectionSizes(s))
	}
	if t := rep.Timeline; t != nil {
		all = append(all, discovery(rep, t))
	}
	return all
}

func statusClasses(rep *report.Report) template.HTML {
	c := &Stack{Caption: Caption{ID: "chart-status", Title: "Answers by status class",
		Desc: "How many URLs answered with each class of status, and how many had no answer.",
		None: "No URL was found."}, First: "Status class"}
	none := rep.URLs
	for _, class := range []struct {
		name, label string
		tone        Tone
	}{{"1xx", "1xx", Muted}, {"2xx", "2xx success", Good}, {"3xx", "3xx redirect", Info},
		{"4xx", "4xx client error", Warn}, {"5xx", "5xx server error", Bad}} {
		n := rep.StatusClasses[class.name]
		none -= n
		if n > 0 {
			c.Parts = append(c.Parts, Part{Label: class.label, Value: float64(n), Tone: class.tone})
		}
	}
	if none > 0 {
		c.Parts = append(c.Parts, Part{Label: "no answer", Value: float64(none), Tone: Muted})
	}
	return c.HTML()
}

// reasonText says in words why pages are not indexable.
func reasonText(reason string) string {
	texts := map[string]string{
		page.NotFetched: "not fetched", page.NotReached: "no whole answer", page.NotStatus: "status is not 200",
		page.NotRobots: "blocked by robots.txt", page.NotRedirect: "redirects",
		page.NotType: "not a page (content type)", page.NotNoIndex: "noindex",
		page.NotCanon: "another URL is canonical", page.NotLength: "URL is too long",
	}
	if text := texts[reason]; text != "" {
		return text
	}
	return reason
}

func notIndexable(rep *report.Report) template.HTML {
	none := "Every URL is indexable."
	if rep.URLs == 0 {
		none = "No URL was found."
	}
	c := &Bars{Caption: Caption{ID: "chart-indexable", Title: "Why URLs are not indexable",
		Desc: "URLs that do not belong into an XML sitemap, by reason.",
		None: none}, First: "Reason", Series: []Series{{Name: "URLs", Tone: Warn}}}
	for _, reason := range words.ByCount(rep.NotIndexable) {
		c.Rows = append(c.Rows, Row{Label: reasonText(reason),
			Values: []float64{float64(rep.NotIndexable[reason])}})
	}
	return c.HTML()
}

// maxDepths is how many click depths have a bar of their own.
const maxDepths = 20

func clickDepths(d *report.ClickDepths) template.HTML {
	c := &Histogram{Caption: Caption{ID: "chart-depth", Title: "Click depth",
		Desc: "URLs by the number of clicks from the nearest start page."},
		First: "Clicks", Name: "URLs", Tone: First}
	more := 0.0
	for _, at := range d.Depths {
		if at.Clicks < maxDepths {
			c.Rows = append(c.Rows, Row{Label: strconv.Itoa(at.Clicks), Values: []float64{float64(at.URLs)}})
		} else {
			more += float64(at.URLs)
		}
	}
	if more > 0 {
		c.Rows = append(c.Rows, Row{Label: fmt.Sprintf("≥%d", maxDepths), Values: []float64{more}})
	}
	if d.Unreachable > 0 {
		c.Rows = append(c.Rows, Row{Label: "no link", Values: []float64{float64(d.Unreachable)}})
	}
	return c.HTML()
}

func responseTimes(t *report.ResponseTimes) template.HTML {
	c := &Histogram{Caption: Caption{ID: "chart-times", Title: "Response times",
		Desc: "URLs by the time from the start of the request to the last byte."},
		First: "Response time", Name: "URLs", Tone: Third}
	for i, b := range t.Buckets {
		label := "≤" + short(b.UpTo)
		if b.UpTo == 0 && i > 0 {
			label = ">" + short(t.Buckets[i-1].UpTo)
		}
		c.Rows = append(c.Rows, Row{Label: label, Values: []float64{float64(b.URLs)}})
	}
	return c.HTML()
}

// short writes milliseconds in the least space.
func short(ms int64) string {
	if ms >= 1000 {
		return humanize.FtoaWithDigits(float64(ms)/1000, 1) + "s"
	}
	return strconv.FormatInt(ms, 10) + "ms"
}

// shownSections is how many sections the charts show.
const shownSections = 12

// sectionLabel names a section by its path, if all sections are of one origin.
func sectionLabel(s *report.List[report.Section]) func(string) string {
	common := ""
	for i, item := range s.Items {
		origin := item.Section
		if at := strings.Index(origin, "://"); at >= 0 {
			if slash := strings.IndexByte(origin[at+3:], '/'); slash >= 0 {
				origin = origin[:at+3+slash]
			}
		}
		if i > 0 && origin != common {
			return func(name string) string {
				_, rest, ok := strings.Cut(name, "://")
				if !ok {
					return name
				}
				return rest
			}
		}
		common = origin
	}
	return func(name string) string { return strings.TrimPrefix(name, common) }
}

func sectionTimes(s *report.List[report.Section]) template.HTML {
	c := &Bars{Caption: Caption{ID: "chart-section-times", Title: "Response time by section",
		Desc:   "Median and 95th percentile of the response time in the largest sections of the site.",
		Format: Millis},
		First: "Section", Series: []Series{{Name: "p50", Tone: First}, {Name: "p95", Tone: Second}}}
	label := sectionLabel(s)
	for _, item := range s.Items[:min(len(s.Items), shownSections)] {
		if item.P50 != nil && item.P95 != nil {
			c.Rows = append(c.Rows, Row{Label: label(item.Section),
				Values: []float64{float64(*item.P50), float64(*item.P95)}})
		}
	}
	return c.HTML()
}

func sectionSizes(s *report.List[report.Section]) template.HTML {
	c := &Bars{Caption: Caption{ID: "chart-sections", Title: "Largest sections",
		Desc: "URLs in the largest sections of the site."}, First: "Section",
		Series: []Series{{Name: "URLs", Tone: First}}}
	label := sectionLabel(s)
	for _, item := range s.Items[:min(len(s.Items), shownSections)] {
		c.Rows = append(c.Rows, Row{Label: label(item.Section), Values: []float64{float64(item.URLs)}})
	}
	return c.HTML()
}

func discovery(rep *report.Report, t *report.Timeline) template.HTML {
	c := &Lines{Caption: Caption{ID: "chart-discovery", Title: "Found and settled over time",
		Desc: "How many URLs had been found, and how many had an outcome, at each moment."},
		Series: []Series{{Name: "Found", Tone: First}, {Name: "Settled", Tone: Second}}}
	if rep.Generation > 0 {
		c.Title = "New and checked URLs over time"
		c.Desc = "How many new URLs this generation had found, and how many URLs it had checked, at each moment."
		c.Series[0].Name, c.Series[1].Name = "New", "Checked"
	}
	var found, crawled int64
	for _, m := range t.Moments {
		found, crawled = found+m.Found, crawled+m.Crawled
		c.Points = append(c.Points, Point{At: m.At.Time, Values: []float64{float64(found), float64(crawled)}})
	}
	return c.HTML()
}
