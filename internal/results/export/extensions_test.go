package export

import (
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// A film is listed if all that the extension requires is known, and as what its type says.
func TestVideoOf(t *testing.T) {
	const film = "https://a.test/f.mp4"
	for _, tt := range []struct {
		name            string
		change          map[string]string // of the properties; an empty text removes one
		content, player string
	}{
		{"type", map[string]string{"og:video:type": "video/mp4"}, film, ""},
		{"extension", nil, film, ""},
		{"player", map[string]string{"og:video": "https://p.test/1", "og:video:type": "text/html"}, "",
			"https://p.test/1"},
		{"secure", map[string]string{"og:video:secure_url": "https://s.test/f.webm"}, "https://s.test/f.webm", ""},
		{"unknown", map[string]string{"og:video": "https://p.test/1"}, "", ""},
		{"flash", map[string]string{"og:video:type": "application/x-shockwave-flash"}, "", ""},
		{"relative", map[string]string{"og:video": "/f.mp4"}, "", ""},
		{"itself", map[string]string{"og:video": "https://a.test/", "og:video:type": "video/mp4"}, "", ""},
		{"none", map[string]string{"og:video": ""}, "", ""},
		{"no image", map[string]string{"og:image": ""}, "", ""},
		{"no description", map[string]string{"og:description": " "}, "", ""},
		{"other title", map[string]string{"og:title": ""}, film, ""},
	} {
		l := indexable("https://a.test/")
		l.Title, l.Description = "Page", ""
		l.OpenGraph = map[string]string{"og:video": film, "og:image": "https://a.test/t.png", "og:title": "Film",
			"og:description": "About"}
		for name, value := range tt.change {
			if l.OpenGraph[name] = value; value == "" {
				delete(l.OpenGraph, name)
			}
		}
		got := videoOf(l)
		if tt.content+tt.player == "" {
			if got != nil {
				t.Errorf("%s: %+v", tt.name, got)
			}
			continue
		}
		want := sitemap.Video{Thumbnail: "https://a.test/t.png", Title: "Film", Description: "About",
			Content: tt.content, Player: tt.player}
		if tt.name == "other title" {
			want.Title = "Page"
		}
		if got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, want)
		}
	}
}

// News are articles of the last two days whose publication, language and title are known.
func TestNewsOf(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	for _, tt := range []struct {
		age                    time.Duration
		name, language, ogName string
		want                   string // the language
	}{
		{47 * time.Hour, "Times", "en-US", "Head", "en"}, {0, "Times", "zh-TW", "", "zh-tw"},
		{time.Hour, "Times", "gsw", "", "gsw"}, {49 * time.Hour, "Times", "en", "", ""},
		{-time.Minute, "Times", "en", "", ""}, {time.Hour, "", "en", "", ""}, {time.Hour, " ", "en", "", ""},
		{time.Hour, "Times", "", "", ""}, {time.Hour, "Times", "e", "", ""}, {time.Hour, "Times", "english", "", ""},
		{time.Hour, "Times", "x1", "", ""},
	} {
		l := indexable("https://a.test/")
		l.Title, l.Language, l.PublishedAt.Time = "Page", tt.language, now.Add(-tt.age)
		l.OpenGraph = map[string]string{"og:site_name": tt.name, "og:title": tt.ogName}
		got, title := newsOf(l, now), "Page"
		if tt.ogName != "" {
			title = tt.ogName
		}
		if want := (sitemap.News{Publication: tt.name, Language: tt.want, Title: title, At: now.Add(-tt.age)}); got ==
			nil != (tt.want == "") || got != nil && *got != want {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
	l := indexable("https://a.test/")
	l.Title, l.Language, l.OpenGraph = "Page", "en", map[string]string{"og:site_name": "Times"}
	if got := newsOf(l, now); got != nil {
		t.Errorf("a page without a date of publication is %+v", got)
	}
}
