package view

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mapwright/mapwright/internal/crawl/monitor"

	"github.com/mapwright/mapwright/internal/page"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the pictures of testdata anew")

// busy is a crawl with something in every corner.
func busy() *monitor.Live {
	l := &monitor.Live{
		SchemaVersion: 1, State: page.Running, Phase: monitor.Crawling, Profile: "polite",
		StartURLs: []string{"https://example.com/", "https://example.org/"}, StartURLCount: 2,
		Elapsed: 3725, Found: 1_234_567, Done: 456_789, Pending: 777_778, InFlight: 73, Bytes: 5 << 30,
		Memory: 412 << 20, InMemory: 700_000, OnDisk: 77_778,
		Outcomes: map[string]int64{"ok": 450_000, "redirect": 5_000, "http_error": 1_700, "timeout": 89,
			"pending": 777_778},
		PagesPerSec: 122.6, PagesPerSecNow: 98.25, BytesPerSecNow: 1.2e6, CommitMS: 23.4, LogBytes: 18 << 20,
		Hosts:   map[string]int64{"delay": 40, "rest": 3, "backoff": 2, "blocked": 1},
		Workers: monitor.ControlUse{Limit: 512, Most: 512, InUse: 73},
		Limits: []monitor.LimitUse{{Name: "pages", Used: 456_862, Limit: 500_000, Left: 439},
			{Name: "seconds", Used: 3725, Limit: 86_400, Left: 82_675}},
	}
	for i := range 5 {
		n := float64(i + 1)
		l.Busiest = append(l.Busiest, monitor.HostUse{Host: fmt.Sprintf("www%d.example.com", i), InFlight: 2, Limit: 2,
			Leases: 12_345 / int64(n), Pending: 9_999, DelayMS: 500, LatencyMS: 80 * n})
		l.Slowest = append(l.Slowest, monitor.HostUse{Host: fmt.Sprintf("slow%d.example.com", i), InFlight: 1, Limit: 2,
			Leases: 10, Pending: 1, DelayMS: 8000, LatencyMS: 8000 / n})
		l.Resting = append(l.Resting, monitor.HostUse{Host: fmt.Sprintf("tired%d.example.org", i), Why: "rest",
			Refusals: i + 1, Left: 60 / n})
	}
	l.Resting[4] = monitor.HostUse{Host: "broken.example.org", Why: "backoff", Failures: 3, Left: 8}
	return l
}

// quiet is a small crawl in which nothing moves.
func quiet() *monitor.Live {
	return &monitor.Live{
		Phase: monitor.Crawling, Profile: "own-site", StartURLs: []string{"http://h0.test/"}, StartURLCount: 1,
		Elapsed: 12, Found: 15, Done: 9, Pending: 6,
		Outcomes: map[string]int64{"ok": 9, "pending": 6}, InMemory: 6, Hosts: map[string]int64{"rest": 1},
		Workers: monitor.ControlUse{Limit: 512, Most: 512}, Memory: 50 << 20, Bytes: 9 * 10240, PagesPerSec: 0.75,
		Waiting: "6 URLs wait: 1 host rests after a refusal; the next request in 3.4s",
		Resting: []monitor.HostUse{{Host: "h0.test", Why: "rest", Refusals: 1, Left: 3.4}},
	}
}

func TestRenderPictures(t *testing.T) {
	notes := Notes{Log: "data/mapwright.log", Warnings: 2}
	for _, tt := range []struct {
		name string
		live *monitor.Live
		s    Screen
	}{
		{"busy_80x24", busy(), Screen{Width: 80, Height: 24}},
		{"busy_200x60", busy(), Screen{Width: 200, Height: 60, Unicode: true}},
		{"busy_40x10", busy(), Screen{Width: 40, Height: 10}},
		{"busy_80x24_color", busy(), Screen{Width: 80, Height: 24, Color: true, Unicode: true}},
		{"quiet_80x24", quiet(), Screen{Width: 80, Height: 24}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Render(tt.live, notes, tt.s) + "\n"
			path := filepath.Join("testdata", tt.name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// The picture in docs/live-view.md is one of the program.
func TestDocumentedPicture(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "live-view.md"))
	if err != nil {
		t.Fatal(err)
	}
	picture := Render(busy(), Notes{Log: "data/mapwright.log", Warnings: 2},
		Screen{Width: 80, Height: 24, Unicode: true})
	picture = regexp.MustCompile(`(?m) +$`).ReplaceAllString(picture, "")
	if !strings.Contains(string(text), "\n```\n"+picture+"\n```\n") {
		t.Errorf("docs/live-view.md does not have the picture\n%s", picture)
	}
}

var inks = regexp.MustCompile("\x1b\\[[0-9]+m")

// fits wants a picture to fill its screen, and to do nothing to the terminal but stand there.
func fits(t interface{ Errorf(string, ...any) }, picture string, s Screen) {
	lines := strings.Split(picture, "\n")
	if len(lines) != s.Height {
		t.Errorf("%d lines on a screen of %d", len(lines), s.Height)
	}
	for _, line := range lines {
		text := line
		if s.Color {
			text = inks.ReplaceAllString(line, "")
			if strings.Count(line, "\x1b[0m")*2 != strings.Count(line, "\x1b[") {
				t.Errorf("a colour that does not end: %q", line)
			}
		}
		if n := utf8.RuneCountInString(text); n > s.Width {
			t.Errorf("%d cells on a screen of %d: %q", n, s.Width, text)
		}
		for _, r := range text {
			if r < ' ' || r == 0x7f || !s.Unicode && r > '~' {
				t.Errorf("character %q in %q", r, text)
			}
		}
	}
}

func TestRenderFitsEveryScreen(t *testing.T) {
	strange := quiet()
	strange.StartURLs = []string{"http://h0.test/" + strings.Repeat("long/", 100)}
	strange.Waiting = "a\nreason\twith \x1b[2J" + strings.Repeat("endless", 50)
	strange.Resting[0].Host = strings.Repeat("a-very-long-name.", 12) + "test"
	for _, l := range []*monitor.Live{busy(), quiet(), strange, {}} {
		for width := 1; width <= 210; width += 1 + width/8 {
			for height := 1; height <= 62; height += 1 + height/8 {
				for _, s := range []Screen{{Width: width, Height: height},
					{Width: width, Height: height, Color: true, Unicode: true}} {
					fits(t, Render(l, Notes{Log: "data/mapwright.log"}, s), s)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

func TestRenderTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)))
		host := rapid.Custom(func(t *rapid.T) monitor.HostUse {
			return monitor.HostUse{Host: rapid.StringMatching(`[a-z0-9.-]{0,90}`).Draw(t, "host"),
				InFlight: rapid.Int().Draw(t, "in flight"), Leases: rapid.Int64().Draw(t, "leases"),
				LatencyMS: number.Draw(t, "latency"), Left: number.Draw(t, "left"), Why: "rest",
				Refusals: rapid.IntRange(0, 99).Draw(t, "refusals")}
		})
		l := &monitor.Live{
			Phase: rapid.SampledFrom([]monitor.Phase{monitor.Queueing, monitor.Crawling, monitor.Stopping,
				monitor.Writing}).Draw(t, "phase"),
			Found: rapid.Int64().Draw(t, "found"), Done: rapid.Int64().Draw(t, "done"),
			Pending: rapid.Int64().Draw(t, "pending"), Elapsed: number.Draw(t, "elapsed"),
			PagesPerSecNow: number.Draw(t, "rate"), BytesPerSecNow: number.Draw(t, "bytes"),
			CommitMS: number.Draw(t, "commit"),
			Waiting:  rapid.StringMatching(`[ -~]{0,200}`).Draw(t, "waiting"),
			Busiest:  rapid.SliceOfN(host, 0, 5).Draw(t, "busiest"),
			Resting:  rapid.SliceOfN(host, 0, 5).Draw(t, "resting"),
			Limits: []monitor.LimitUse{{Name: "pages", Used: number.Draw(t, "used"), Limit: number.Draw(t, "limit"),
				Left: number.Draw(t, "left")}},
		}
		s := Screen{Width: rapid.IntRange(1, 220).Draw(t, "width"), Height: rapid.IntRange(1, 70).Draw(t, "height")}
		fits(t, Render(l, Notes{}, s), s)
	})
}

// A small screen has what matters most.
func TestRenderLeavesOutTheLeast(t *testing.T) {
	for height, want := range map[int][]string{
		1: {"Mapwright"},
		3: {"Mapwright", "Rate", "URLs"},
		4: {"Mapwright", "Rate", "URLs", "Waiting for work..."},
	} {
		picture := Render(quiet(), Notes{}, Screen{Width: 80, Height: height})
		for _, text := range want {
			if !strings.Contains(picture, text) {
				t.Errorf("no %q in %d lines:\n%s", text, height, picture)
			}
		}
	}
}

func TestRenderPhases(t *testing.T) {
	for phase, want := range map[monitor.Phase]string{
		monitor.Queueing: "Waiting for work... another safe crawl runs",
		monitor.Stopping: "Stopping: no new requests",
		monitor.Writing:  "Writing the outputs",
	} {
		l := quiet()
		l.Phase, l.Waiting = phase, ""
		if phase == monitor.Queueing {
			l.Waiting = "another safe crawl runs"
		}
		if picture := Render(l, Notes{}, Screen{}); !strings.Contains(picture, want) {
			t.Errorf("%s: no %q in\n%s", phase, want, picture)
		}
	}
	slow := busy()
	slow.CommitMS, slow.Workers.Limit = 620, 48
	if picture, want := Render(slow, Notes{}, Screen{Width: 80, Height: 30}),
		"Commits are slow (620ms): the governor lets 48 of 512 workers run."; !strings.Contains(picture, want) {
		t.Errorf("no %q in\n%s", want, picture)
	}
}

func BenchmarkRender(b *testing.B) {
	l := busy()
	for _, s := range []Screen{{Width: 80, Height: 24, Color: true, Unicode: true},
		{Width: 200, Height: 60, Color: true, Unicode: true}} {
		b.Run(fmt.Sprintf("columns=%d/rows=%d", s.Width, s.Height), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Render(l, Notes{Log: "data/mapwright.log"}, s)
			}
		})
	}
}
