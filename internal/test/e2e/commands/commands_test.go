package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	got := e2e.Run(t, "version")
	e2e.Succeeded(t, got)
	if !regexp.MustCompile(`^mapwright \S+ \(go\S+, \w+/\w+\)\n$`).MatchString(got.Stdout) {
		t.Errorf("says %q", got.Stdout)
	}
	got = e2e.Run(t, "version", "--json")
	e2e.Succeeded(t, got)
	v := e2e.Parse[struct{ Version, Go, OS, Arch string }](t, got.Stdout)
	if v.Version == "" || v.Go == "" || v.OS == "" || v.Arch == "" {
		t.Errorf("says %+v", v)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"", "help", "--help"} {
		got := e2e.Run(t, strings.Fields(args)...)
		e2e.Succeeded(t, got)
		for _, command := range []string{"crawl", "resume", "export", "status", "changes", "inspect", "robots", "wipe",
			"demo", "version", "completion"} {
			if !strings.Contains(got.Stdout, "\n  "+command+" ") {
				t.Errorf("%q does not name %s", args, command)
			}
		}
	}
	got := e2e.Run(t, "crawl", "--help")
	e2e.Succeeded(t, got)
	order := []string{"Usage:", "Examples:", "\nFlags:", "--start-url", "--data-dir", "--profile", "\nLimits:",
		"--max-urls", "\nScope and links:", "\nThe ten controls:", "--max-workers", "MAPWRIGHT_MAX_URLS"}
	rest := got.Stdout
	for _, word := range order {
		_, after, ok := strings.Cut(rest, word)
		if !ok {
			t.Fatalf("%q is not in its place in the help of crawl", word)
		}
		rest = after
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := e2e.Run(t, "completion", shell)
		e2e.Succeeded(t, got)
		if !strings.Contains(got.Stdout, "mapwright") {
			t.Errorf("%s: no script", shell)
		}
	}
	for args, want := range map[string]string{
		"crawl --profile ":   "own-site",
		"crawl --max-ur":     "--max-urls",
		"crawl --log-level ": "debug",
		"export --format ":   "links",
		"res":                "resume",
	} {
		got := e2e.Run(t, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if got.Code != 0 || !strings.Contains("\n"+got.Stdout, "\n"+want) {
			t.Errorf("%q is completed with %q, want %s among it", args, got.Stdout, want)
		}
	}
}

// decision is what 'robots --json' says of one URL.
type decision struct {
	URL        string   `json:"url"`
	Allowed    bool     `json:"allowed"`
	Rule       string   `json:"rule"`
	Line       int      `json:"line"`
	Group      string   `json:"group"`
	CrawlDelay *float64 `json:"crawl_delay"`
	Sitemaps   []string `json:"sitemaps"`
	Confidence string   `json:"confidence"`
	Error      string   `json:"error"`
}

func TestRobots(t *testing.T) {
	t.Parallel()
	file := e2e.Write(t, filepath.Join(t.TempDir(), "robots.txt"), `User-agent: *
Disallow: /private
Allow: /private/open
Crawl-delay: 2.5

User-agent: otherbot
Disallow: /

Sitemap: https://a.test/map.xml
`)
	got := e2e.Run(t, "robots", "--json", "--file", file, "https://a.test/private/x", "a.test/private/open",
		"https://a.test/")
	e2e.Succeeded(t, got)
	var all []decision
	for text := range strings.Lines(got.Stdout) {
		for _, field := range []string{"url", "allowed", "rule", "line", "group", "crawl_delay", "sitemaps",
			"confidence"} {
			if !strings.Contains(text, `"`+field+`":`) {
				t.Errorf("no %s in %s", field, text)
			}
		}
		all = append(all, e2e.Parse[decision](t, text))
	}
	want := []string{
		"https://a.test/private/x false Disallow: /private 2 * 2.5 [https://a.test/map.xml] high",
		"https://a.test/private/open true Allow: /private/open 3 * 2.5 [https://a.test/map.xml] high",
		"https://a.test/ true  0 * 2.5 [https://a.test/map.xml] high",
	}
	if len(all) != len(want) {
		t.Fatalf("%d decisions, want %d", len(all), len(want))
	}
	for i, d := range all {
		if text := fmt.Sprint(d.URL, " ", d.Allowed, " ", d.Rule, " ", d.Line, " ", d.Group, " ", *d.CrawlDelay, " ",
			d.Sitemaps, " ", d.Confidence); text != want[i] {
			t.Errorf("decision %q, want %q", text, want[i])
		}
	}

	got = e2e.Run(t, "robots", "--json", "--file", file, "--agent", "OtherBot/2.0 (x)", "https://a.test/x")
	e2e.Succeeded(t, got)
	if d := e2e.Parse[decision](t,
		got.Stdout); d.Allowed || d.Group != "otherbot" || d.Line != 7 || d.CrawlDelay != nil {
		t.Errorf("for another crawler: %+v", d)
	}
	got = e2e.Run(t, "robots", "--file", file, "https://a.test/private/x")
	e2e.Succeeded(t, got)
	for _, word := range []string{"https://a.test/private/x: disallowed for Mapwright", "Disallow: /private (line 2)",
		"group: *", "crawl delay: 2.5s", "https://a.test/map.xml"} {
		if !strings.Contains(got.Stdout, word) {
			t.Errorf("does not say %q:\n%s", word, got.Stdout)
		}
	}
}

func TestRobotsOfASite(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 2, Faults: append(testweb.On("0", testweb.Disallow{}),
		testweb.On("1", testweb.Robots{Status: 500})...)})
	url := func(host int, path string) string { return "http://" + web.HostName(host) + path }
	got := e2e.Run(t, "robots", "--json", "--resolve", web.Resolve(), url(0, "/private/0"), url(0, "/"))
	e2e.Succeeded(t, got)
	first, second, _ := strings.Cut(got.Stdout, "\n")
	if d := e2e.Parse[decision](t, first); d.Allowed || d.Rule == "" || d.Confidence != "high" {
		t.Errorf("a private page: %+v", d)
	}
	if d := e2e.Parse[decision](t, second); !d.Allowed || d.Confidence != "high" {
		t.Errorf("a public page: %+v", d)
	}
	for _, strict := range []bool{false, true} {
		got := e2e.Run(t, "robots", "--json", "--resolve", web.Resolve(), fmt.Sprint("--robots-strict=", strict),
			url(1, "/"))
		e2e.Succeeded(t, got)
		if d := e2e.Parse[decision](t, got.Stdout); d.Allowed == strict || d.Confidence != "low" {
			t.Errorf("where robots.txt cannot be had, strict %v: %+v", strict, d)
		}
	}
	got = e2e.Run(t, "robots", "--json", "--resolve", "*:80:"+e2e.ClosedPort(t), url(0, "/"))
	e2e.Succeeded(t, got)
	if d := e2e.Parse[decision](t, got.Stdout); !d.Allowed || d.Confidence != "low" || d.Error == "" {
		t.Errorf("where no server answers: %+v", d)
	}
}

// inspection is what 'inspect --json' says of a page.
type inspection struct {
	e2e.Line
	Base  string `json:"base"`
	Links []struct {
		Href   string  `json:"href"`
		URL    *string `json:"url"`
		Kind   string  `json:"kind"`
		Rel    string  `json:"rel"`
		Text   string  `json:"text"`
		Follow bool    `json:"follow"`
		Reason string  `json:"reason"`
	} `json:"links"`
}

func TestInspect(t *testing.T) {
	t.Parallel()
	page, err := filepath.Abs(filepath.Join("testdata", "page.html"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"inspect", "--json", "--base", "https://a.test/x/", "--extract", "price=.price"}
	fromFile := e2e.Run(t, append(args, page)...)
	e2e.Succeeded(t, fromFile)
	fromInput := e2e.Invocation{Args: append(args, "-"), Stdin: string(text)}.Run(t)
	e2e.Succeeded(t, fromInput)
	moment := regexp.MustCompile(`"crawled_at":"[^"]*"`)
	if a, b := moment.ReplaceAllString(fromFile.Stdout, ""), moment.ReplaceAllString(fromInput.Stdout, ""); a != b {
		t.Errorf("a file and standard input are read differently:\n%s\n%s", a, b)
	}

	ins := e2e.Parse[inspection](t, fromFile.Stdout)
	head := fmt.Sprintf("%s %s %s|%s|%s|%s|%s|%s|%v|%v|%d|%v|%v", ins.URL, ins.Base, ins.Title, ins.Description, ins.H1,
		ins.CanonicalURL, ins.Language,
		ins.RobotsMeta, ins.JSONLDTypes, ins.OpenGraph, ins.WordCount, ins.Indexable, ins.Extracted)
	if want := "https://a.test/x/ https://a.test/shop/ Tea & cake|All about " +
		"tea|Tea|https://a.test/x/|en|max-snippet:20|[Product]|map[og:type:product]|12|true|map[price:3.50]"; head != want {
		t.Errorf("the page is\n%s, want\n%s", head, want)
	}
	want := []string{
		"https://a.test/x/ https://a.test/x/ link canonical  true ",
		"cup https://a.test/shop/cup a  A cup true ",
		"../map?b=1&a=%7e https://a.test/map?b=1&a=~ area   true ",
		"http://b.test/ http://b.test/ a  elsewhere false out_of_scope",
		"/login https://a.test/login a nofollow log in false nofollow",
		"mailto:a@a.test null a  write false not_http",
		"http://[ null a  broken false not_http",
		"/frame https://a.test/frame iframe   true ",
		"/tea.png https://a.test/tea.png image  a pot false image",
		"/plain https://a.test/plain a  without scripts true ",
	}
	if len(ins.Links) != len(want) {
		t.Errorf("%d links, want %d", len(ins.Links), len(want))
	}
	for i, l := range ins.Links[:min(len(ins.Links), len(want))] {
		url := "null"
		if l.URL != nil {
			url = *l.URL
		}
		if text := fmt.Sprintf("%s %s %s %s %s %v %s", l.Href, url, l.Kind, l.Rel, l.Text, l.Follow,
			l.Reason); text != want[i] {
			t.Errorf("link %d is\n%s, want\n%s", i, text, want[i])
		}
	}

	plain := e2e.Run(t, "inspect", "--base", "https://a.test/x/", page)
	e2e.Succeeded(t, plain)
	for _, word := range []string{"Tea & cake", "https://a.test/shop/cup", "out_of_scope", "Indexable       yes"} {
		if !strings.Contains(plain.Stdout, word) {
			t.Errorf("does not say %q:\n%s", word, plain.Stdout)
		}
	}
}

// A page that is fetched is described as a crawl would.
func TestInspectFetches(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Faults: testweb.OnAll(testweb.StatusPages{}, testweb.RedirectChain{})})
	for url, e := range e2e.Expected(t, web, testweb.Crawl{}) {
		got := e2e.Run(t, "inspect", "--json", "--resolve", web.Resolve(), url)
		e2e.Succeeded(t, got)
		ins := e2e.Parse[inspection](t, got.Stdout)
		if ins.Outcome != e.Outcomes[0] || ins.StatusCode != e.Status || ins.RedirectTo != e.Location ||
			e.Title != "" && ins.Title != e.Title {
			t.Errorf("%s: %s %d %q %q, want %+v", url, ins.Outcome, ins.StatusCode, ins.RedirectTo, ins.Title, e)
		}
	}
	if got := e2e.Run(t, "inspect", "--resolve", "*:80:"+e2e.ClosedPort(t), web.StartURLs()[0]); got.Code != 1 ||
		strings.Count(got.Stderr, "\n") != 1 {
		t.Errorf("where no server answers: exit status %d, %q; want 1 and one line", got.Code, got.Stderr)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "demo", "--data-dir", dir)
	if got.Code != 0 {
		t.Fatalf("exit status %d, want 0", got.Code)
	}
	want := map[string]int{"ok": 17, "http_error": 2, "redirect": 2, "blocked_by_robots": 1}
	if rep := e2e.ReadReport(t, dir); fmt.Sprint(rep.Outcomes) != fmt.Sprint(want) {
		t.Errorf("outcomes %v, want %v", rep.Outcomes, want)
	}
	if got := e2e.Run(t, "demo"); got.Code != 0 {
		t.Errorf("without a directory: exit status %d, want 0", got.Code)
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "$ mapwright demo\n")
	shown, _, _ = strings.Cut(shown, "```")
	if shown, printed := withoutValues(shown), withoutValues(got.Stdout); shown != printed {
		t.Errorf("README.md shows\n%s\nand the demo prints\n%s", shown, printed)
	}
}

// withoutValues leaves out of what the program prints what differs from run to run: ports, times, sizes that depend on them, directories.
func withoutValues(printed string) string {
	printed = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllString(printed, "ADDRESS")
	printed = regexp.MustCompile(`[0-9.]+(ms|µs|s)\b( \([^)]*\))?`).ReplaceAllString(printed, "TIME")
	printed = regexp.MustCompile(`[0-9.]+ KiB`).ReplaceAllString(printed, "SIZE")
	return regexp.MustCompile(`(into|in) /\S+`).ReplaceAllString(printed, "$1 DIRECTORY")
}
