package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/words"
)

// crawlFrame is what the pages of one crawl have in common.
type crawlFrame struct {
	frame
	Crawl  *service.Crawl
	Label  string
	Badge  ui.Cell
	Why    string
	Path   string // address of the crawl
	API    string // address of its results
	Result bool   // it has written its files
	Old    bool   // it has gone on since it wrote them
	Forms  []commandForm

	Recrawl []field // of the form for a recrawl of some pages
}

// OpenRecrawl says whether that form is shown, because it has faults.
func (f crawlFrame) OpenRecrawl() bool {
	return slices.ContainsFunc(f.Recrawl, func(f field) bool { return len(f.Errors) > 0 })
}

// commandForm is a button.
type commandForm struct {
	Command service.Command
	Label   string
	Confirm string // what it does, if it cannot be undone
}

// crawlView is what the page of a crawl shows.
type crawlView struct {
	crawlFrame
	Live     template.HTML // of a crawl that runs
	Verdict  string        // of one that has written its report; so are Tone, Charts and Files
	Tone     string
	Charts   []template.HTML
	Figures  []figure
	Outcomes *ui.Table
	Files    []ui.Cell // that the crawl has written
	Settings *ui.Table
	Starts   *ui.Table
	Runs     *ui.Table         // earlier generations; nil if there are none
	Edit     map[string]string // the form that changes the crawl
	Schedule string            // address of the form for a schedule

	EditFault *service.Error
}

// figure is one of the large numbers. Field names it for the script.
type figure struct{ Name, Value, Field string }

func (c *call) crawlFrame(crawl *service.Crawl, tab, title string) crawlFrame {
	f := c.frame(label(crawl)+" · "+title, "crawls")
	f.Tab = tab
	out := crawlFrame{frame: f, Crawl: crawl, Label: label(crawl), Badge: stateBadge(crawl.State),
		Why: ui.Capital(why(crawl)), Path: f.crawlPath(crawl.ID, ""),
		API: f.Base + "/v1/crawls/" + url.PathEscape(crawl.ID)}
	out.Result = exists(c.Service.Crawls.DataDir(crawl.ID).Report())
	out.Old = out.Result && !crawl.State.Ended() && crawl.State != service.Deleting
	if f.CanWrite {
		out.Forms, out.Recrawl = commandsOf(crawl), recrawlFields(nil, nil)
	}
	return out
}

// commandsOf are the buttons that make sense in a crawl's state. The service decides; a button that came too late is
// answered with the reason.
func commandsOf(crawl *service.Crawl) (forms []commandForm) {
	safe := crawl.Profile == "safe"
	pause, resume := commandForm{Command: service.CommandPause, Label: "Pause"},
		commandForm{Command: service.CommandResume, Label: "Resume"}
	cancel := commandForm{Command: service.CommandCancel, Label: "Cancel",
		Confirm: "The crawl ends, and its files have what was found so far."}
	again := commandForm{Command: service.CommandRecrawl, Label: "Recrawl"}
	switch crawl.State {
	case service.Queued:
		forms = []commandForm{pause, cancel}
	case service.Running:
		if !safe {
			forms = append(forms, pause)
		}
		forms = append(forms, cancel)
	case service.Pausing, service.Paused:
		forms = []commandForm{resume, cancel}
	case service.Complete, service.Partial, service.Failed:
		if crawl.State != service.Failed {
			forms = append(forms, again)
		}
		if crawl.State != service.Complete && !safe {
			forms = append(forms, resume)
		}
	}
	if crawl.State != service.Deleting {
		forms = append(forms, commandForm{Command: service.CommandDelete, Label: "Delete",
			Confirm: "The crawl and all of its files are deleted. This cannot be undone."})
	}
	return forms
}

// renderCrawl answers with the page of a crawl. The view has forms as they were sent, if they are to be shown again.
func (c *call) renderCrawl(status int, crawl *service.Crawl, v *crawlView) error {
	recrawl := v.Recrawl
	v.crawlFrame = c.crawlFrame(crawl, "crawl", "Crawl")
	if recrawl != nil {
		v.Recrawl = recrawl
	}
	if v.Edit == nil {
		v.Edit = editFormOf(crawl)
	}
	v.Settings, v.Starts, v.Schedule = settingsTable(crawl), startsTable(crawl), v.schedulePath(crawl.ID)
	runs, err := c.Service.Crawls.Runs(c.ctx, c.caller, crawl.ID)
	if err != nil {
		return err
	}
	if len(runs) > 1 {
		v.Runs = runsTable(runs)
	}
	live, err := c.livePart(crawl)
	if err != nil {
		return err
	}
	if v.Live = template.HTML(live); live == nil {
		if err := v.addReport(c.Service.Crawls.DataDir(crawl.ID)); err != nil {
			return err
		}
	}
	return c.render(status, "crawl", v)
}

// livePart is the part of a page that follows a crawl which runs or will run soon; nil for another one.
func (c *call) livePart(crawl *service.Crawl) ([]byte, error) {
	if crawl.State.Ended() || crawl.State == service.Paused || crawl.State == service.Deleting {
		return nil, nil
	}
	if text := c.live.get(crawl); text != nil {
		return text, nil
	}
	// The crawl waits, or begins or ends at this moment.
	out := &bytes.Buffer{}
	err := c.templates.ExecuteTemplate(out, "figures", figures(&crawl.Progress))
	return out.Bytes(), err
}

// showHead answers with the state of the crawl and its buttons, for the script.
func (c *call) showHead(crawl *service.Crawl) error {
	return c.render(http.StatusOK, "crawl-head", c.crawlFrame(crawl, "crawl", "Crawl"))
}

// showLive answers with the live part, for the script; 204 if there is none.
func (c *call) showLive(crawl *service.Crawl) error {
	text, err := c.livePart(crawl)
	if err != nil {
		return err
	}
	if text == nil {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	c.sendHTML(http.StatusOK, text)
	return nil
}

// postCommand does what a button says, and shows the crawl again.
func postCommand(command service.Command) func(*call) error {
	return func(c *call) error {
		id := c.r.PathValue("id")
		if command == service.CommandDelete && c.r.PostForm.Get("sure") == "" {
			return refuse(service.ErrInvalid, "Tick the box beside the button to delete the crawl.")
		}
		_, err := c.Service.Crawls.Command(c.ctx, c.caller, id, command, recrawlOf(command, c.r.PostForm))
		if fault, ok := errors.AsType[*service.Error](err); ok && command == service.CommandRecrawl &&
			len(fault.Fields) > 0 {
			crawl, err := c.find()
			if err != nil {
				return err
			}
			return c.renderCrawl(fault.Code.Status(), crawl,
				&crawlView{crawlFrame: crawlFrame{Recrawl: recrawlFields(c.r.PostForm, fault.Fields)}})
		}
		if command == service.CommandDelete {
			return c.then("/", err)
		}
		return c.then("/crawls/"+url.PathEscape(id), err)
	}
}

// recrawlFields are the fields of the form for a recrawl of some pages.
func recrawlFields(values url.Values, faults []service.FieldError) []field {
	fields := []field{
		{Name: "max_age", Label: "Last check is longer ago than",
			Usage: "Such as 12h or 7d; empty means whenever it was", Kind: "text"},
		{Name: "include", Label: "Only URLs that match", Usage: "Regular expressions, one in a line; empty means all",
			Kind: "area"},
		{Name: "exclude", Label: "No URLs that match", Usage: "Regular expressions, one in a line", Kind: "area"},
	}
	for i := range fields {
		f := &fields[i]
		f.Value, f.Errors = values.Get(f.Name), faultsOf(faults, f.Name)
	}
	return fields
}

// recrawlOf is which pages a recrawl visits again; nil if it is all of them, or the command is another one.
func recrawlOf(command service.Command, form url.Values) *service.Recrawl {
	r := &service.Recrawl{MaxAge: strings.TrimSpace(form.Get("max_age")), Include: lines(form.Get("include")),
		Exclude: lines(form.Get("exclude"))}
	if command != service.CommandRecrawl || r.MaxAge == "" && len(r.Include) == 0 && len(r.Exclude) == 0 {
		return nil
	}
	return r
}

// addReport adds what a crawl has found, if it has written that.
func (v *crawlView) addReport(dir datadir.Dir) error {
	crawl := v.Crawl
	v.Figures = lastFigures(&crawl.Progress)
	outcomes := crawl.Outcomes
	rep, err := report.Read(dir)
	if rep != nil && crawl.State.Ended() {
		outcomes = rep.Outcomes
	}
	v.Outcomes = outcomesTable(outcomes, v.Path)
	if rep == nil || err != nil {
		return err
	}
	v.Verdict, v.Tone = ui.Verdict(rep)
	v.Charts = ui.Charts(rep)
	for _, f := range []struct{ name, rest string }{{"report.html", "/report.html"}, {"report.json", "/report"},
		{"sitemap.jsonl", "/pages.jsonl"}, {rep.Sitemap(), "/sitemap.xml"},
		{"sitemap.csv", "/sitemap.csv"}, {datadir.ParquetName, "/pages.parquet"},
		{datadir.LinksParquetName, "/links.parquet"}, {datadir.ProblemsParquetName, "/problems.parquet"},
		{"problems.jsonl", "/problems.jsonl"}, {"links.jsonl", "/links"}, {"changes.jsonl", "/changes"},
		{"log", "/log"}} {
		if f.name == "report.json" || f.name == "log" || slices.Contains(rep.Files, f.name) ||
			f.name == "report.html" && exists(dir.ReportHTML()) {
			v.Files = append(v.Files, ui.Inside(f.name, v.API+f.rest))
		}
	}
	shown := 0
	for _, name := range rep.Files {
		archive := strings.HasPrefix(name, "warc/")
		// An index of parts names them by their addresses on the site.
		part := rep.Sitemaps.Parts > 0 && datadir.IsSitemap(name) && name != rep.Sitemap()
		if (archive || part) && shown < maxFiles {
			v.Files = append(v.Files, ui.Inside(name, v.API+"/"+path.Base(name)))
			shown++
		}
	}
	return nil
}

// maxFiles is how many sitemaps of hosts and WARC files a crawl's page links.
const maxFiles = 20

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lastFigures are the large numbers of a crawl that does not run. The rate is that of the whole run, and what the crawl
// found replaces what is under way.
func lastFigures(p *service.Progress) []figure {
	all := []figure{{"Found", humanize.Comma(p.Found), "found"}, {"Done", humanize.Comma(p.Done), "done"}}
	if p.Pending > 0 {
		all = append(all, figure{"Pending", humanize.Comma(p.Pending), "pending"})
	}
	if p.Indexable != nil {
		all = append(all, figure{Name: "Indexable", Value: humanize.Comma(*p.Indexable)})
	}
	if p.Problems != nil {
		all = append(all, figure{Name: "Errors", Value: humanize.Comma(p.Problems.Errors)},
			figure{Name: "Warnings", Value: humanize.Comma(p.Problems.Warnings)})
	}
	if p.Elapsed > 0 {
		all = append(all, figure{Name: "Pages per second", Value: ui.Decimal(float64(p.Done) / p.Elapsed)})
	}
	return append(all, figure{"Received", ui.Size(p.Bytes), "bytes"},
		figure{"Time", ui.Seconds(p.Elapsed), "elapsed_seconds"})
}

// figures are the large numbers of a crawl.
func figures(p *service.Progress) []figure {
	return []figure{
		{"Found", humanize.Comma(p.Found), "found"}, {"Done", humanize.Comma(p.Done), "done"},
		{"Pending", humanize.Comma(p.Pending), "pending"}, {"In flight", humanize.Comma(p.InFlight), "in_flight"},
		{"Pages per second", ui.Decimal(p.PagesPerSecNow), "pages_per_second_now"},
		{"Received", ui.Size(p.Bytes), "bytes"}, {"Time", ui.Seconds(p.Elapsed), "elapsed_seconds"},
	}
}

// outcomesTable counts outcomes, which lead to their pages in the list of a crawl at a path.
func outcomesTable(of map[string]int64, path string) *ui.Table {
	return ui.Counts("URLs by outcome", "Outcome", "URLs", of,
		func(name string) string { return path + "/pages?outcome=" + url.QueryEscape(name) })
}

func settingsTable(crawl *service.Crawl) *ui.Table {
	t := &ui.Table{Caption: "Settings that the submission gave",
		Columns: []ui.Column{{Name: "Setting"}, {Name: "Value"}}}
	for _, name := range slices.Sorted(maps.Keys(crawl.Settings)) {
		text := settingText(crawl.Settings[name])
		if name == "duration" {
			text = durationText(crawl.Settings[name])
		}
		t.Add(ui.Word(name), ui.Text(strings.ReplaceAll(text, "\n", ", ")))
	}
	return t
}

func runsTable(runs []service.Run) *ui.Table {
	t := &ui.Table{Caption: "Generations that have ended, newest first",
		Columns: []ui.Column{{Name: "Generation", Class: "num"}, {Name: "State"}, {Name: "Started"},
			{Name: "Ended"}, {Name: "Found", Class: "num"}, {Name: "Done", Class: "num"}, {Name: "Reason"}}}
	for _, r := range runs {
		t.Add(ui.Number(int64(r.Generation)), stateBadge(r.State), ui.Word(ui.When(r.StartedAt)),
			ui.Word(ui.When(r.EndedAt)), ui.Number(r.Found), ui.Number(r.Done), ui.Text(r.Reason))
	}
	return t
}

func startsTable(crawl *service.Crawl) *ui.Table {
	t := &ui.Table{Caption: "Start URLs", Columns: []ui.Column{{Name: "URL", Class: "url"}},
		More: "the submission has all"}
	for _, u := range crawl.StartURLs {
		t.Add(ui.Link(u))
	}
	t.Cut += int64(max(0, crawl.StartURLCount-len(crawl.StartURLs)))
	return t
}

// liveView is what the figures of a running crawl show. It holds nothing of the caller, since all callers get the same
// bytes.
type liveView struct {
	*monitor.Live
	Path     string
	Figures  []figure
	Limits   []limitBar
	Outcomes *ui.Table
	Waits    *ui.Table
	Charts   []template.HTML

	HostTables []hostTable
}

// hostTable is a list of hosts at one moment.
type hostTable struct {
	Title string
	Hosts []monitor.HostUse
}

// limitBar is how much of a limit is used up.
type limitBar struct {
	Name, Used, Limit, Left string
	Value, Max              float64
}

func liveViewOf(base string, crawl *service.Crawl, l *monitor.Live, moments []moment) *liveView {
	v := &liveView{Live: l, Path: base + "/crawls/" + url.PathEscape(crawl.ID)}
	v.Figures = figures(&service.Progress{Found: l.Found, Done: l.Done, Pending: l.Pending, InFlight: l.InFlight,
		PagesPerSecNow: l.PagesPerSecNow, Bytes: l.Bytes, Elapsed: l.Elapsed})
	for _, u := range l.Limits {
		b := limitBar{Name: ui.Capital(u.Name), Value: min(u.Used, u.Limit), Max: u.Limit,
			Used: humanize.Comma(int64(u.Used)), Limit: humanize.Comma(int64(u.Limit))}
		if u.Name == "seconds" {
			b.Name, b.Used, b.Limit = "Time", ui.Seconds(u.Used), ui.Seconds(u.Limit)
		}
		if u.Left > 0 {
			left := (time.Duration(min(u.Left, 1e9)) * time.Second).String() // in whole seconds
			b.Left = "about " + left + " left at this rate"
		}
		v.Limits = append(v.Limits, b)
	}
	v.Outcomes = outcomesTable(l.Outcomes, v.Path)
	v.Outcomes.Live = true
	v.Waits = &ui.Table{Live: true, Caption: "Hosts with URLs to fetch, by what they wait for",
		Columns: []ui.Column{{Name: "Waits for"}, {Name: "Hosts", Class: "num"}}}
	for _, why := range words.ByCount(l.Hosts) {
		v.Waits.Add(ui.Text(why), ui.Number(l.Hosts[why]))
	}
	v.HostTables = []hostTable{{"Busiest hosts", l.Busiest}, {"Resting hosts", l.Resting}, {"Slowest hosts", l.Slowest}}
	v.Charts = liveCharts(moments)
	return v
}

// liveCharts are the charts of a running crawl over its whole run.
func liveCharts(moments []moment) []template.HTML {
	found := &ui.Lines{Caption: ui.Caption{ID: "chart-found", Title: "Found and done",
		Desc: "How many URLs were found, and how many were done, at each moment of the run."},
		Series: []ui.Series{{Name: "Found", Tone: ui.First}, {Name: "Done", Tone: ui.Second}}}
	rate := &ui.Lines{Caption: ui.Caption{ID: "chart-rate", Title: "Pages per second",
		Desc: "Pages fetched per second at each moment of the run.", Format: ui.Decimal},
		Series: []ui.Series{{Name: "Pages per second", Tone: ui.Third}}}
	flight := &ui.Lines{Caption: ui.Caption{ID: "chart-flight", Title: "Requests under way",
		Desc: "Requests under way at each moment of the run."},
		Series: []ui.Series{{Name: "In flight", Tone: ui.First}}}
	for _, m := range moments {
		found.Points = append(found.Points, ui.Point{At: m.at, Values: []float64{m.found, m.done}})
		rate.Points = append(rate.Points, ui.Point{At: m.at, Values: []float64{m.rate}})
		flight.Points = append(flight.Points, ui.Point{At: m.at, Values: []float64{m.inFlight}})
	}
	return []template.HTML{found.HTML(), rate.HTML(), flight.HTML()}
}

// editFormOf returns the fields of the form that changes a crawl, with their present values. Limits are empty if the
// submission did not give them.
func editFormOf(crawl *service.Crawl) map[string]string {
	return map[string]string{"name": crawl.Name, "labels": strings.Join(crawl.Labels, ", "),
		"priority": strconv.Itoa(crawl.Priority), "max_urls": settingText(crawl.Settings["max_urls"]),
		"duration": durationText(crawl.Settings["duration"])}
}

// durationText writes a duration as people write it: 1h30m, and not the 5400 seconds that JSON has.
func durationText(value any) string {
	text := settingText(value)
	d, err := config.ParseDuration(text)
	if err != nil || d < time.Second {
		return text
	}
	text = d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if short, ok := strings.CutSuffix(text, zero); ok {
			text = short + zero[:1]
		}
	}
	return text
}

// postEdit changes a crawl. Only values that differ are sent, so that a form that was open for long undoes nothing
// else.
func (c *call) postEdit(crawl *service.Crawl) error {
	form := map[string]string{}
	e := service.Edit{Settings: map[string]json.RawMessage{}}
	for name, was := range editFormOf(crawl) {
		value := strings.TrimSpace(c.r.PostForm.Get(name))
		if form[name] = value; value == was {
			continue
		}
		switch name {
		case "name":
			e.Name = &value
		case "labels":
			e.Labels = new(commaList(value))
		case "priority":
			n, err := strconv.Atoi(value)
			if err != nil {
				n = -1 // the service says what it must be
			}
			e.Priority = &n
		default:
			if e.Settings[name] = json.RawMessage("null"); value != "" {
				e.Settings[name] = json.RawMessage(service.ToJSON(value))
			}
		}
	}
	_, err := c.Service.Crawls.Edit(c.ctx, c.caller, crawl.ID, e)
	if fault, ok := errors.AsType[*service.Error](err); ok && fault.Code != service.ErrNotFound {
		return c.renderCrawl(fault.Code.Status(), crawl, &crawlView{Edit: form, EditFault: fault})
	}
	return c.then("/crawls/"+url.PathEscape(crawl.ID), err)
}

// commaList are the parts of a text between commas.
func commaList(text string) []string {
	all := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// showCrawl shows one crawl: while it runs its figures, afterwards what it found.
func (c *call) showCrawl(crawl *service.Crawl) error {
	return c.renderCrawl(http.StatusOK, crawl, &crawlView{})
}
