package commands

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// restful is a web of three hosts, of which the first refuses once and wants a rest. When the others are done, nothing
// moves until the rest is over.
func restful(rest time.Duration) testweb.Config {
	return testweb.Config{Seed: 7, Hosts: 3, Pages: 15, Faults: testweb.On("0", testweb.RefuseBursts{
		Every: 10, Length: 1, Answer: testweb.Answer{Status: 429, RetryAfter: rest},
	})}
}

// stuck is a web that answers the start page and then never again.
func stuck() testweb.Config {
	return testweb.Config{Pages: 1, Faults: testweb.OnAll(testweb.Hang{Where: testweb.Where{Count: 5}})}
}

// crawlOf is a crawl of a web's start pages, in a hurry.
func crawlOf(web *testweb.Server, dir string, more ...string) []string {
	args := []string{"crawl", "--scope", "host", "--profile", "own-site", "--resolve", web.Resolve(), "--data-dir", dir,
		"--adaptive-step-ms", "1"}
	for _, u := range web.StartURLs() {
		args = append(args, "--start-url", u)
	}
	return append(args, more...)
}

// The view shows a crawl while it runs, says why nothing moves, and leaves the terminal as it was, with the closing
// table.
func TestViewThroughACrawl(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {200, 60}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			t.Parallel()
			web := e2e.Serve(t, restful(30*time.Minute))
			dir := filepath.Join(t.TempDir(), "data")
			term := sitting{cols: size[0], rows: size[1]}.start(t,
				crawlOf(web, dir, "--max-urls", "1000", "--duration", "10m")...)

			term.shows("Mapwright  http://h0.test/ and 2 more", "own-site", "pages/s now", "overall", "found", "done",
				"pending", "in flight", "Outcomes", "ok ",
				"memory", "URLs in memory", "on disk", "Hosts", "Workers", " of what is found", " of 1,000 pages",
				" of 0:10:00", "Log: "+dir[:20])
			term.shows("Waiting for work...", "1 host rests after a refusal", "Resting", "refused once")
			term.types("typed by a cat\r\n")
			resting := func(s *screen) bool {
				return slices.ContainsFunc(s.lines(), func(line string) bool {
					return strings.HasPrefix(line, "h0.test ") && strings.Contains(line, "refused once") &&
						strings.HasSuffix(line, " s")
				})
			}
			term.sees("a resting host with the time left", resting)
			term.sees("a picture on the second screen", func(s *screen) bool {
				return s.second && s.hidden && s.colors > 0 && len(s.lines()[0]) == size[0] &&
					strings.Contains(s.lines()[size[1]-1], "Ctrl-C stops")
			})

			term.types("\x03")
			if code := term.wait(); code != 130 {
				t.Errorf("exit status %d, want 130", code)
			}
			s := term.screen
			if s.second || s.hidden || s.times != 1 {
				t.Errorf("the terminal is left on its second screen (%v), with a hidden cursor (%v), after %d times",
					s.second, s.hidden, s.times)
			}
			term.shows("Status", "cancelled (interrupted)", "mapwright resume --data-dir",
				"sitemap.jsonl, sitemap.xml (3 parts of 3 hosts), report.json")
			if !strings.HasPrefix(s.String(), "Status ") {
				t.Errorf("something stands above the closing table:\n%s", s)
			}
			if all := term.all(); strings.Contains(all, "level=") || strings.Contains(all, "cat") {
				t.Error("the log, or what was typed, got into the picture")
			}
			log := e2e.Read(t, dir, "mapwright.log")
			if !strings.Contains(log, `msg="a host refused a request" host=h0.test`) {
				t.Errorf("the log lacks the refusal:\n%s", log)
			}
			for line := range strings.Lines(log) {
				if strings.Contains(line, "h0.test/d") && !strings.Contains(line, "a host refused a request") &&
					!strings.Contains(line, "a URL will be tried again") {
					t.Errorf("a page that was fetched has a line in the log: %s", line)
				}
			}
		})
	}
}

// The picture follows the size of the window, whatever that is; Ctrl-Z without a shell that could continue the process
// does nothing; Ctrl-C ends the crawl in order.
func TestViewFollowsTheWindowUntilInterrupted(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 40})
	web.Hold(1)
	dir := filepath.Join(t.TempDir(), "data")
	term := sitting{}.start(t, crawlOf(web, dir, "--timeout", "1h", "--grace", "1h")...)
	term.shows("1 done", "in flight", "Busiest", "Ctrl-C stops")
	for _, size := range [][2]int{{40, 10}, {130, 50}, {12, 3}, {80, 24}, {200, 60}} {
		cols, rows := size[0], size[1]
		term.resize(cols, rows)
		term.sees(fmt.Sprintf("a picture of %d by %d", cols, rows), func(s *screen) bool {
			lines := s.lines()
			titles := 0
			for _, line := range lines {
				if strings.HasPrefix(line, "Mapwright") {
					titles++
				}
			}
			return titles == 1 && strings.HasPrefix(lines[0], "Mapwright") && len([]rune(lines[0])) == cols &&
				(rows < 24 || strings.Contains(lines[rows-1], "Ctrl-C stops"))
		})
	}
	term.types("\x1a")
	term.shows("Waiting for work...", "under way, and nothing has come for")
	term.types("\x03")
	term.shows("Stopping: no new requests")
	web.Release()
	if code := term.wait(); code != 130 {
		t.Errorf("exit status %d, want 130", code)
	}
	term.shows("cancelled (interrupted)", "mapwright resume --data-dir")
	if term.screen.second || term.screen.hidden {
		t.Error("the terminal is not as it was")
	}
}

func TestViewIsLeftAtOnceByTwoInterrupts(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, stuck())
	dir := filepath.Join(t.TempDir(), "data")
	term := sitting{}.start(t, crawlOf(web, dir, "--timeout", "1h", "--grace", "1h")...)
	term.shows("1 done", "in flight")
	term.types("\x03")
	term.shows("Stopping: no new requests", "Ctrl-C leaves at once")
	if code := term.typesUntilEnded("\x03"); code != 130 {
		t.Errorf("exit status %d, want 130", code)
	}
	term.shows("mapwright: left at once")
	if term.screen.second || term.screen.hidden {
		t.Error("the terminal is not as it was")
	}
}

// A safe crawl that waits for another one says so, and for whom.
func TestViewOfACrawlInTheQueue(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, stuck())
	machine := "TMPDIR=" + t.TempDir()
	args := func() []string {
		return []string{"crawl", "--safe", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir",
			filepath.Join(t.TempDir(), "data"), "--timeout", "1h"}
	}
	first := e2e.Invocation{Args: args(), Env: []string{machine}}.Start(t)
	first.Until("the first has the slot", func() bool { return e2e.Pages(web) > 0 })
	first.Freeze() // a safe crawl ends after a minute
	term := sitting{env: []string{machine}}.start(t, args()...)
	term.shows("Waiting for work... another safe crawl runs (process", fmt.Sprint(first.Pid()),
		"1 goes before this one")
	term.types("\x03")
	if code := term.wait(); code != 130 {
		t.Errorf("exit status %d, want 130", code)
	}
}

// The terminal's modes are as before when the program has ended.
func TestViewGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{})
	dir := filepath.Join(t.TempDir(), "data")
	term := sitting{rows: 60, cols: 100, program: "/bin/sh"}.start(t,
		append([]string{"-c", `stty -a >before; "$0" "$@"; code=$?; stty -a >after; exit $code`, e2e.Binary},
			crawlOf(web, dir)...)...)
	if code := term.wait(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	term.shows("complete (nothing left to fetch)", "10, 10 indexable", "sitemap.jsonl, sitemap.xml, report.json")
	before, after := e2e.Read(t, term.cmd.Dir, "before"), e2e.Read(t, term.cmd.Dir, "after")
	if before != after || !strings.Contains(before, " echo ") {
		t.Errorf("the terminal was\n%sand is\n%s", before, after)
	}
	if term.screen.times != 1 {
		t.Errorf("the picture was drawn %d times", term.screen.times)
	}
}

// Where a picture is not wanted or cannot be drawn, not one escape sequence is written, and the log is on the terminal
// and in the data directory.
func TestNoView(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		sitting sitting
		args    []string
	}{
		"--no-progress": {args: []string{"--no-progress"}},
		"TERM=dumb":     {sitting: sitting{env: []string{"TERM=dumb"}}},
		"no TERM":       {sitting: sitting{env: []string{"TERM="}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := e2e.Serve(t, testweb.Config{})
			dir := filepath.Join(t.TempDir(), "data")
			term := s.sitting.start(t, crawlOf(web, dir, append(s.args, "--ignore-robots")...)...)
			if code := term.wait(); code != 0 {
				t.Errorf("exit status %d, want 0", code)
			}
			if all := term.all(); strings.Contains(all, "\x1b") ||
				!strings.Contains(all, `level=WARN msg="ROBOTS.TXT IS IGNORED`) || !strings.Contains(all, "Status ") {
				t.Errorf("got %q", all)
			}
			if !strings.Contains(e2e.Read(t, dir, "mapwright.log"), `level=WARN msg="ROBOTS.TXT IS IGNORED`) {
				t.Error("the log is not in the data directory")
			}
		})
	}
}

func TestViewWithoutColors(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, stuck())
	term := sitting{env: []string{"NO_COLOR=1", "LANG=C"}}.start(t,
		crawlOf(web, filepath.Join(t.TempDir(), "data"), "--timeout", "1h", "--grace", "0.1")...)
	term.shows("1 done", "Done      ###-----")
	term.types("\x03")
	term.wait()
	if s := term.screen; s.times != 1 || s.colors != 0 {
		t.Errorf("drawn %d times, with %d changes of colour", s.times, s.colors)
	}
	for _, r := range term.all() {
		if r > '~' {
			t.Fatalf("the character %q in a terminal that has only ASCII", r)
		}
	}
}

// The report can go elsewhere while the picture is drawn, and the log where a setting says.
func TestViewWithOutputElsewhere(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, restful(time.Second))
	web.Hold(3)
	dir, log := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "my.log")
	term := sitting{redirected: true}.start(t, crawlOf(web, dir, "--json", "--log-file", log, "--log-format", "json",
		"--log-level", "debug")...)
	term.shows("Mapwright", "Log: "+log[:20])
	web.Release()
	if code := term.wait(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	if rep := e2e.Parse[e2e.Report](t, term.out.String()); rep.Status != "complete" {
		t.Errorf("the report says %q", rep.Status)
	}
	if text := term.screen.String(); text != "" {
		t.Errorf("left on the terminal: %q", text)
	}
	if e2e.Exists(t, dir, "mapwright.log") {
		t.Error("there is a mapwright.log beside the log that was asked for")
	}
	text := e2e.Read(t, filepath.Dir(log), filepath.Base(log))
	for line := range strings.Lines(text) {
		e2e.Parse[map[string]any](t, line)
	}
	if !strings.Contains(text, "a URL will be tried again") {
		t.Error("no line about a single URL at debug")
	}
}

// Commands that draw nothing ask nothing of the terminal either.
func TestCommandsDoNotQuestionTheTerminal(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"crawl", "--help"}, {"status", "--data-dir", "nowhere"}} {
		term := sitting{}.start(t, args...)
		term.wait()
		if all := term.all(); all == "" || strings.Contains(all, "\x1b") {
			t.Errorf("%q wrote %q", args, all)
		}
	}
}
