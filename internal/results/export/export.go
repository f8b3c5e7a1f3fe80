package export

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/parquet"
	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// Source is where pages come from, in a stable order.
type Source func(ctx context.Context) iter.Seq2[*page.Line, error]

// Options say what to write.
type Options struct {
	Dir      string
	BaseURL  string // where the XML files will be served from
	Name     string // of the XML files; empty means sitemap.DefaultName
	Split    string // "path": each directory of a host has a set of XML files; else each host has one
	Gzip     bool
	Hreflang bool
	Images   bool
	Videos   bool
	News     bool
	CSV      bool
	Links    bool
	// Exclude are expressions of URLs that XML sitemaps do not list. Frequencies and Priorities are rules for
	// sitemap.ParseRules.
	Exclude, Frequencies, Priorities []string
	Parquet                          bool
	// Extract are the names of extracted fields, which are further columns of sitemap.csv and pages.parquet.
	Extract []string
	// Checked says what a check found at a URL, and false if it was not checked. Nil means that nothing was.
	Checked func(url string) (page.Checked, bool) `json:"-"`
	// Changes, when not nil, are the lines of changes.jsonl, in a stable order.
	Changes func(ctx context.Context) iter.Seq2[*recrawl.Line, error] `json:"-"`
	// Room bounds what all files take. It may leave out all but sitemap.jsonl and the XML sitemaps.
	Room *datadir.Room `json:"-"`
	// Only, when not empty, names the outputs to write: jsonl, xml, csv, parquet, links, changes.
	Only []string
	// DryRun writes nothing: Each sees the pages.
	DryRun bool
	// Each, when not nil, sees every page, and its line in sitemap.jsonl; nil if that is not written.
	Each func(l *page.Line, line []byte) `json:"-"`
	// MaxURLs and MaxBytes replace the protocol's limits of one XML file with URLs, and MaxIndex replaces the limit of
	// files in an index. Zero means the protocol's limit.
	MaxURLs, MaxBytes, MaxIndex int
	// MaxSections replaces how many directories of a host have a set of XML files, if it is not zero.
	MaxSections int
}

// Result says what was written.
type Result struct {
	Pages     int64 `json:"pages"`
	Indexable int64 `json:"indexable"`
	Excluded  int64 `json:"excluded_from_sitemap,omitempty"` // indexable pages that Options.Exclude leaves out
	Links     int64 `json:"links,omitempty"`                 // edges of the link graph
	Changes   int64 `json:"changes,omitempty"`               // lines of changes.jsonl
	// names within the directory, sitemap.jsonl first; at most 1,000 XML sitemaps
	Files []string `json:"files"`
	// sitemaps of an earlier export that this one does not have, at most 1,000
	Removed []string `json:"removed,omitempty"`
	Sitemaps
}

// Sitemaps counts the XML sitemaps of an export that has several sets of them.
type Sitemaps struct {
	Hosts    int64 `json:"sitemap_hosts,omitempty"`    // that have a set of their own
	Sections int64 `json:"sitemap_sections,omitempty"` // directories that have a set of their own
	Parts    int64 `json:"sitemap_parts,omitempty"`    // files with URLs
}

// Write makes one pass over the source and writes everything that was asked for.
func Write(ctx context.Context, src Source, o Options) (res *Result, err error) {
	unlock, err := datadir.Lock(ctx, o.Dir)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	defer unlock()
	e := &exporter{o: o, res: &Result{Files: []string{}}, fields: page.NewTable()}
	defer e.abort()
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	for l, err := range src(ctx) {
		if err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		if err := e.page(l); err != nil {
			return nil, fmt.Errorf("export %s: %w", l.URL, err)
		}
	}
	if e.changes != nil {
		if err := e.writeChanges(ctx); err != nil {
			return nil, fmt.Errorf("export %s: %w", datadir.ChangesName, err)
		}
	}
	if err := e.close(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return e.res, nil
}

type exporter struct {
	o   Options
	res *Result

	fields *page.Table
	jsonl  *datadir.File
	line   []byte // the last of jsonl
	table  *datadir.File
	csv    *csv.Writer
	// pages.parquet and links.parquet
	pagesFile, linksFile *datadir.File
	pages, links         *parquet.Writer
	values               []any // the last row of one of them
	graph                *datadir.File
	edges                []byte // lines of graph that are not written yet
	changes              *datadir.File
	xml                  *xmlFiles

	exclude                 []*regexp.Regexp
	frequencies, priorities []sitemap.Rule
}

func (e *exporter) wants(what string) bool {
	if e.o.DryRun {
		return false
	}
	return len(e.o.Only) == 0 || slices.Contains(e.o.Only, what)
}

// CheckReplace returns datadir.ErrNotOurs if an export with these options would replace a file that Mapwright did not
// write. Only Write checks the parts of a large sitemap after the first, because their number is not known before.
func CheckReplace(o Options) error {
	e := &exporter{o: o}
	if err := e.checkReplace(); err != nil || !e.wants("xml") {
		return err
	}
	return newXMLFiles(&o).checkReplace()
}

// output is a file other than an XML sitemap.
type output struct {
	name   string
	wanted bool
	file   **datadir.File
}

// outputs returns these files, in the order in which they are published.
func (e *exporter) outputs() []output {
	return []output{{"sitemap.jsonl", e.wants("jsonl"), &e.jsonl},
		{"sitemap.csv", e.o.CSV && e.wants("csv"), &e.table},
		{datadir.ParquetName, e.o.Parquet && e.wants("parquet"), &e.pagesFile},
		{"links.jsonl", e.o.Links && e.wants("links"), &e.graph},
		{datadir.LinksParquetName, e.o.Parquet && e.o.Links && e.wants("parquet"), &e.linksFile},
		{datadir.ChangesName, e.o.Changes != nil && e.wants("changes"), &e.changes}}
}

// checkReplace checks the outputs other than XML sitemaps. Those are checked when the first one is written, because
// there are none if no page is indexable.
func (e *exporter) checkReplace() error {
	for _, out := range e.outputs() {
		if out.wanted {
			if err := datadir.CheckFile(filepath.Join(e.o.Dir, out.name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *exporter) open() error {
	err := e.checkReplace()
	for _, out := range e.outputs() {
		if !out.wanted || err != nil {
			continue
		}
		if *out.file, err = datadir.Create(filepath.Join(e.o.Dir, out.name), datadir.Public); err == nil {
			e.o.Room.Add(*out.file, out.file != &e.jsonl)
		}
	}
	if err != nil {
		return err
	}
	if e.wants("xml") {
		e.xml = newXMLFiles(&e.o)
	}
	if err := e.parseRules(); err != nil {
		return err
	}
	if e.pagesFile != nil {
		if e.pages, err = parquet.New(e.pagesFile, "Mapwright", e.pageColumns()); err != nil {
			return err
		}
	}
	if e.linksFile != nil {
		if e.links, err = parquet.New(e.linksFile, "Mapwright", linkColumns()); err != nil {
			return err
		}
	}
	if e.table == nil {
		return nil
	}
	e.csv = csv.NewWriter(e.table)
	header := e.fields.Columns()
	for _, name := range e.o.Extract {
		header = append(header, csvCell("extracted."+name))
	}
	return e.csv.Write(header)
}

// parseRules compiles the expressions of the options.
func (e *exporter) parseRules() (err error) {
	for _, text := range e.o.Exclude {
		re, err := regexp.Compile(text)
		if err != nil {
			return err
		}
		e.exclude = append(e.exclude, re)
	}
	if e.frequencies, err = sitemap.ParseRules(e.o.Frequencies, sitemap.CheckFrequency); err != nil {
		return err
	}
	e.priorities, err = sitemap.ParseRules(e.o.Priorities, sitemap.CheckPriority)
	return err
}

// page writes one page to all outputs.
func (e *exporter) page(l *page.Line) error {
	e.res.Pages++
	if l.Indexable && !sitemap.Fits(l.URL.String()) {
		l.Indexable, l.IndexableReason = false, page.NotLength
	}
	if e.jsonl != nil {
		e.line = append(e.fields.AppendJSON(e.line[:0], l), '\n')
		if _, err := e.jsonl.Write(e.line); err != nil {
			return err
		}
	}
	if e.o.Each != nil {
		e.o.Each(l, e.line)
	}
	if isWritten(e.table) {
		row := e.fields.Cells(l)
		for _, name := range e.o.Extract {
			row = append(row, strings.Join(l.Extracted.Values(name), " | "))
		}
		for i, cell := range row {
			row[i] = csvCell(cell)
		}
		if err := e.csv.Write(row); err != nil {
			return err
		}
	}
	if err := e.addToTables(l); err != nil {
		return err
	}
	if isWritten(e.graph) {
		if err := e.addToGraph(l); err != nil {
			return err
		}
		e.res.Links += int64(len(l.Links))
	}
	if !l.Indexable {
		return nil
	}
	e.res.Indexable++
	if slices.ContainsFunc(e.exclude, func(re *regexp.Regexp) bool { return re.MatchString(l.URL.String()) }) {
		e.res.Excluded++
		return nil
	}
	if e.xml == nil {
		return nil
	}
	return e.xml.add(l.URL, e.entry(l))
}

// isWritten reports whether an output is wanted and was not left out.
func isWritten(f *datadir.File) bool { return f != nil && !f.IsLeftOut() }

// addToGraph adds the links and the files of a page to links.jsonl.
func (e *exporter) addToGraph(l *page.Line) error {
	from := l.URL.String()
	e.edges = e.edges[:0]
	flush := func(least int) error {
		if len(e.edges) < least {
			return nil
		}
		_, err := e.graph.Write(e.edges)
		e.edges = e.edges[:0]
		return err
	}
	for i := range l.Links {
		e.edges = e.appendEdge(e.edges, from, &l.Links[i])
		if err := flush(datadir.BufferSize); err != nil {
			return err
		}
	}
	for _, file := range l.Assets {
		e.edges = e.appendAsset(e.edges, from, file)
		if err := flush(datadir.BufferSize); err != nil {
			return err
		}
	}
	return flush(1)
}

func (e *exporter) writeChanges(ctx context.Context) error {
	enc := json.NewEncoder(page.EscapingWriter{Writer: e.changes})
	enc.SetEscapeHTML(false)
	for l, err := range e.o.Changes(ctx) {
		if err == nil {
			err = enc.Encode(l)
		}
		if err != nil {
			return err
		}
		e.res.Changes++
	}
	return nil
}

// appendEdge appends a line of links.jsonl. With package encoding/json it took a seventh of the CPU of an export with
// 30 links on a page.
func (e *exporter) appendEdge(b []byte, from string, l *page.Link) []byte {
	b = page.AppendQuoted(append(b, `{"from":`...), from)
	b = page.AppendQuoted(append(b, `,"to":`...), l.To)
	if l.Fragment != "" {
		b = page.AppendQuoted(append(b, `,"fragment":`...), l.Fragment)
	}
	if l.Rel != "" {
		b = page.AppendQuoted(append(b, `,"rel":`...), l.Rel)
	}
	if l.Text != "" {
		b = page.AppendQuoted(append(b, `,"text":`...), l.Text)
	}
	b = strconv.AppendBool(append(b, `,"nofollow":`...), l.NoFollow)
	if e.o.Checked != nil {
		b = e.appendChecked(b, l.To)
	}
	return append(b, '}', '\n')
}

// appendAsset appends a line of links.jsonl for a file that a page uses.
func (e *exporter) appendAsset(b []byte, from, to string) []byte {
	b = page.AppendQuoted(append(b, `{"from":`...), from)
	b = page.AppendQuoted(append(b, `,"to":`...), to)
	b = append(b, `,"nofollow":false,"asset":true`...)
	if e.o.Checked != nil {
		b = e.appendChecked(b, to)
	}
	return append(b, '}', '\n')
}

// appendChecked appends what a check found at the target of a link.
func (e *exporter) appendChecked(b []byte, to string) []byte {
	found, ok := e.o.Checked(to)
	if !ok {
		return b
	}
	b = page.AppendQuoted(append(b, `,"outcome":`...), found.Outcome.String())
	if found.StatusCode > 0 {
		b = strconv.AppendInt(append(b, `,"status_code":`...), int64(found.StatusCode), 10)
	}
	if found.Size >= 0 {
		b = strconv.AppendInt(append(b, `,"content_length":`...), found.Size, 10)
	}
	if found.RedirectTo != "" {
		b = page.AppendQuoted(append(b, `,"redirect_to":`...), found.RedirectTo)
	}
	return b
}

// entry is a page in an XML sitemap.
func (e *exporter) entry(l *page.Line) *sitemap.Entry {
	out := &sitemap.Entry{Loc: l.URL.String(), LastMod: lastMod(l), Priority: -1}
	out.Frequency = sitemap.FirstMatch(e.frequencies, out.Loc)
	if text := sitemap.FirstMatch(e.priorities, out.Loc); text != "" {
		out.Priority, _ = strconv.ParseFloat(text, 64) // checked by parseRules
	}
	if e.o.Images {
		out.Images = l.Images
	}
	if e.o.Videos {
		out.Video = videoOf(l)
	}
	if e.o.News {
		out.News = newsOf(l, time.Now())
	}
	if e.o.Hreflang {
		for _, a := range l.Hreflang {
			out.Alternates = append(out.Alternates, sitemap.Alternate{Lang: a.Lang, Href: a.URL})
		}
	}
	return out
}

// lastMod is what the server, the page or the site's own sitemap says, else when a recrawl found a change, else none.
// It is never the day of the crawl, and a page that changes a little at every visit has none.
func lastMod(l *page.Line) time.Time {
	switch {
	case l.Volatile:
		return time.Time{}
	case !l.LastModified.IsZero():
		return l.LastModified.Time
	}
	return l.ChangedAt.Time
}

// pageColumns are the columns of pages.parquet: the fields of sitemap.jsonl, and the extracted fields.
func (e *exporter) pageColumns() (columns []parquet.Column) {
	kinds := map[page.Kind]parquet.Kind{page.Text: parquet.Text, page.JSON: parquet.JSON, page.Number: parquet.Integer,
		page.Truth: parquet.Boolean, page.Moment: parquet.Timestamp, page.Texts: parquet.Texts}
	e.fields.Typed(func(name string, kind page.Kind) {
		columns = append(columns, parquet.Column{Name: name, Kind: kinds[kind]})
	})
	for _, name := range e.o.Extract {
		columns = append(columns, parquet.Column{Name: "extracted." + name, Kind: parquet.Texts})
	}
	return columns
}

// linkColumns are the columns of links.parquet: the fields of links.jsonl.
func linkColumns() []parquet.Column {
	return []parquet.Column{{Name: "from", Kind: parquet.Text}, {Name: "to", Kind: parquet.Text},
		{Name: "fragment", Kind: parquet.Text}, {Name: "rel", Kind: parquet.Text}, {Name: "text", Kind: parquet.Text},
		{Name: "nofollow", Kind: parquet.Boolean}, {Name: "asset", Kind: parquet.Boolean},
		{Name: "outcome", Kind: parquet.Text}, {Name: "status_code", Kind: parquet.Integer},
		{Name: "content_length", Kind: parquet.Integer}, {Name: "redirect_to", Kind: parquet.Text}}
}

// addToTables adds a page to pages.parquet, and its links to links.parquet.
func (e *exporter) addToTables(l *page.Line) error {
	if isWritten(e.pagesFile) {
		e.values = e.fields.AppendValues(e.values[:0], l)
		for _, name := range e.o.Extract {
			var found any
			if texts := l.Extracted.Values(name); texts != nil {
				found = texts
			}
			e.values = append(e.values, found)
		}
		if err := e.pages.Add(e.values); err != nil {
			return err
		}
	}
	if !isWritten(e.linksFile) {
		return nil
	}
	for i := range l.Links {
		link := &l.Links[i]
		e.values = append(e.values[:0], l.URL.String(), link.To, known(link.Fragment), known(link.Rel),
			known(link.Text), link.NoFollow, false)
		if err := e.addLink(link.To); err != nil {
			return err
		}
	}
	for _, file := range l.Assets {
		e.values = append(e.values[:0], l.URL.String(), file, nil, nil, nil, false, true)
		if err := e.addLink(file); err != nil {
			return err
		}
	}
	return nil
}

// addLink adds a row to links.parquet: the values so far, and what a check found at the target.
func (e *exporter) addLink(to string) error {
	var outcome, status, size, redirect any
	if e.o.Checked != nil {
		if found, ok := e.o.Checked(to); ok {
			outcome, redirect = found.Outcome.String(), known(found.RedirectTo)
			if found.StatusCode > 0 {
				status = int64(found.StatusCode)
			}
			if found.Size >= 0 {
				size = found.Size
			}
		}
	}
	e.values = append(e.values, outcome, status, size, redirect)
	return e.links.Add(e.values)
}

// known is a text, or nil if it is empty.
func known(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// close publishes all files, sitemap.jsonl first, when all are durable.
func (e *exporter) close() error {
	if e.csv != nil {
		e.csv.Flush()
		if err := e.csv.Error(); err != nil {
			return err
		}
	}
	for _, table := range []*parquet.Writer{e.pages, e.links} {
		if table != nil {
			if err := table.Close(); err != nil {
				return err
			}
		}
	}
	for _, out := range e.outputs() {
		if f := *out.file; f != nil {
			if err := f.Seal(); err != nil {
				return err
			}
		}
	}
	if e.xml != nil {
		if err := e.xml.prepare(); err != nil {
			return err
		}
		e.res.Sitemaps = e.xml.count()
	}
	for _, out := range e.outputs() {
		if f := *out.file; f != nil {
			if err := f.Publish(); err != nil {
				return err
			}
			if !f.IsLeftOut() {
				e.res.Files = append(e.res.Files, out.name)
			}
			*out.file = nil
		}
	}
	if e.xml == nil {
		return disk.SyncDir(e.o.Dir)
	}
	names, err := e.xml.publish()
	e.res.Files = append(e.res.Files, names[:min(len(names), maxListed)]...)
	e.res.Removed = e.xml.removed[:min(len(e.xml.removed), maxListed)]
	return errors.Join(err, disk.SyncDir(e.o.Dir))
}

// maxListed is how many XML sitemaps a Result names.
const maxListed = 1000

func (e *exporter) abort() {
	for _, out := range e.outputs() {
		if f := *out.file; f != nil {
			f.Discard()
		}
	}
	if e.xml != nil {
		e.xml.abort()
	}
}
