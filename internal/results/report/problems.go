package report

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/parquet"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/state"
)

// newFinder makes the Finder for the problems of the site.
func (c *Crawl) newFinder(ctx context.Context, generation uint32, sorts extsort.Space,
	checked func(url string) (page.Checked, bool)) (*problems.Finder, error) {
	read, err := c.sitemapsRead(ctx, generation)
	if err != nil {
		return nil, err
	}
	hasher := c.Store.Hasher()
	not, notes := c.notChecked()
	asked, err := c.hasChecked(ctx)
	if err != nil {
		return nil, err
	}
	if !asked && len(c.Settings.OnlyHosts) > 0 {
		for _, code := range outsideCodes() {
			not[code] = cmp.Or(not[code], "nothing was checked, because only some hosts may be asked (--only-hosts)")
		}
	}
	return problems.New(problems.Options{
		Sorts: c.optional(sorts), NoRoom: whyNoRoom, Links: c.Settings.RecordsLinks(),
		FollowNofollow: c.Settings.FollowNofollow, NearDuplicates: c.Settings.NearDuplicates,
		NotChecked: not, Notes: notes, Checked: checked,
		Host: func(u weburl.URL) (h problems.Host, err error) {
			h.SitemapsRead = read[hasher.HostID(u.Host())]
			if c.Settings.CheckSoft404 {
				h.Probe, h.Probed, err = c.readProbe(ctx, u, generation)
			}
			return h, err
		},
	}), nil
}

// whyNoRoom says why problems are not looked for after an error of Room.Scratch.
func whyNoRoom(err error) string {
	switch e, ok := errors.AsType[*datadir.NoRoomError](err); {
	case !ok:
		return ""
	case e.DiskFull:
		return "the disk is nearly full"
	}
	return "that would take more disk than the plan of the account leaves"
}

// judgedInflight is how many requests of one host may be under way at once, while its response times still say
// something about its pages.
const judgedInflight = 8

// outsideCodes are the problems that only checks find.
func outsideCodes() []problems.Code {
	return []problems.Code{problems.BrokenExternal, problems.ExternalUnchecked, problems.BrokenAsset,
		problems.LargeAsset}
}

// hasChecked says whether there is a check that the settings did not leave out later.
func (c *Crawl) hasChecked(ctx context.Context) (bool, error) {
	if c.Store.Counters().Checks == 0 {
		return false, nil
	}
	for m, err := range c.Store.Sitemaps(ctx) {
		if err != nil {
			return false, err
		}
		if m.Link.Check && (m.Finish == nil || page.Outcome(m.Finish.Outcome) != page.Excluded) {
			return true, nil
		}
	}
	return false, nil
}

// notChecked returns which problems cannot be looked for with these settings, and why. notes are remarks on other
// problems.
func (c *Crawl) notChecked() (not, notes map[problems.Code]string) {
	s := c.Settings
	not, notes = map[problems.Code]string{}, map[problems.Code]string{}
	if !s.RecordsLinks() {
		not[problems.LinkToRedirect] = "links were not recorded (--links)"
		notes[problems.BrokenLink] = "which pages link to them is not known, because links were not recorded (--links)"
	}
	if c.Unnamed {
		why := "several machines crawled, with an earlier version of Mapwright, and sitemaps list more than " +
			"2,000,000 URLs"
		not[problems.NotInSitemap] = why
		if !s.RecordsLinks() {
			not[problems.Orphan] = "links were not recorded (--links), " + why
		}
	}
	if !s.CheckExternal {
		for _, code := range []problems.Code{problems.BrokenExternal, problems.ExternalUnchecked} {
			not[code] = "links to other sites were not checked (--check-external)"
		}
	}
	if !s.CheckAssets {
		for _, code := range []problems.Code{problems.BrokenAsset, problems.LargeAsset} {
			not[code] = "files that pages load were not checked (--check-assets)"
		}
	}
	if !s.CheckFragments {
		not[problems.BrokenFragment] = "fragments of links were not checked (--check-fragments)"
	}
	if !s.NearDuplicates {
		not[problems.DuplicateNear] = "the texts of pages were not compared (--near-duplicates)"
	}
	if !s.CheckSoft404 {
		not[problems.SoftNotFound] = "no host was asked for a page that does not exist (--check-soft-404)"
	}
	if s.Profile == config.OwnSite && s.MaxInflightPerHost > judgedInflight {
		not[problems.Slow] = fmt.Sprintf("up to %d requests of a host were under way at once "+
			"(--max-inflight-per-host), so that response times say little about single pages", s.MaxInflightPerHost)
	}
	if !s.Seeds("sitemap") {
		for _, code := range []problems.Code{problems.SitemapNotOK, problems.SitemapNotIndexable,
			problems.NotInSitemap} {
			not[code] = "sitemaps were not read (--seeding-strategy, or --max-depth 0)"
		}
	}
	return not, notes
}

// sitemapsRead says for each host with sitemaps whether all of them were read to the end in the generation. A usual
// place without a sitemap does not count.
func (c *Crawl) sitemapsRead(ctx context.Context, generation uint32) (map[weburl.HostID]bool, error) {
	read := map[weburl.HostID]bool{}
	var keys []weburl.Key
	look := func() error {
		list, err := c.Store.ReadSitemaps(ctx, keys)
		for i := range list {
			m := &list[i]
			visit, hosts := m.Vouched()
			for _, host := range hosts {
				switch whole, counts := wasRead(m, visit, generation); {
				case !counts:
				case whole:
					if _, known := read[host]; !known {
						read[host] = true
					}
				default:
					read[host] = false
				}
			}
		}
		keys = keys[:0]
		return err
	}
	for m, err := range c.Store.Sitemaps(ctx) {
		if err != nil {
			return nil, err
		}
		if m.Link.Source == page.SourceProbe || m.Link.Check {
			continue
		}
		if keys = append(keys, m.Link.Key); len(keys) == 256 {
			if err := look(); err != nil {
				return nil, err
			}
		}
	}
	return read, look()
}

// wasRead reports whether a sitemap was read to its end, and whether it counts as a sitemap of its site. Visit is the
// last one that was queued.
func wasRead(m *state.Sitemap, visit, generation uint32) (whole, counts bool) {
	f := m.Finish
	if f == nil || visit > max(1, f.Visit) {
		return false, true
	}
	if f.Generation != generation {
		return false, false // nothing names it any more
	}
	switch page.Outcome(f.Outcome) {
	case page.OK:
		return true, true
	case page.Redirect:
		return true, false // its target is another sitemap
	}
	// A usual place that gave no sitemap does not count.
	return false, m.Link.Source != sourceGuessed
}

// sourceGuessed is the source of a sitemap at one of the usual places, as package seeding stores it.
const sourceGuessed uint8 = 1

// find finds the problems that need several pages, fills in the report, and writes problems.jsonl, and
// problems.parquet if tables are asked for, unless dryRun is set.
func (c *Crawl) find(ctx context.Context, finder *problems.Finder, rep *Report, dryRun bool) (*problems.Result, error) {
	if err := finder.Join(ctx); err != nil {
		return nil, err
	}
	if err := c.readLinks(ctx, finder); err != nil {
		return nil, err
	}
	var res *problems.Result
	lists := map[string]*List[string]{problems.Orphan.String(): {}, problems.NotInSitemap.String(): {}}
	broken, referrers := &List[Broken]{}, 0
	var table *problemTable // nil if there is none
	write := func(w io.Writer) (err error) {
		enc := json.NewEncoder(page.EscapingWriter{Writer: w})
		enc.SetEscapeHTML(false)
		res, err = finder.Finish(ctx, func(e *problems.Entry) error {
			if list := lists[e.Code]; list != nil {
				list.add(e.URL)
			} else if e.Code == problems.BrokenLink.String() {
				referrers += addBroken(broken, e, referrers)
			}
			return errors.Join(enc.Encode(e), table.add(e))
		})
		return err
	}
	var err error
	why, gaveUp := errors.AsType[*datadir.NoRoomError](finder.GaveUp())
	switch {
	case dryRun:
		err = write(io.Discard)
	case gaveUp:
		if c.Room.LeaveOut(why, datadir.ProblemsName); c.Settings.Parquet {
			c.Room.LeaveOut(why, datadir.ProblemsParquetName)
		}
		err = write(io.Discard)
	case c.Settings.Parquet:
		path := filepath.Join(string(c.Dir), datadir.ProblemsParquetName)
		err = c.Room.WriteStream(c.Dir.Problems(), datadir.Public, func(lines io.Writer) error {
			return c.Room.WriteStream(path, datadir.Public, func(w io.Writer) (err error) {
				if table, err = newProblemTable(w); err != nil {
					return err
				}
				return cmp.Or(write(lines), table.out.Close())
			})
		})
	default:
		err = c.Room.WriteStream(c.Dir.Problems(), datadir.Public, write)
	}
	if err != nil {
		if res != nil {
			res.Close()
		}
		return nil, err
	}
	if err := c.describeBroken(ctx, broken.Items); err != nil {
		res.Close()
		return nil, err
	}
	rep.Problems, rep.BrokenLinks = res.Problems, broken.orNil()
	rep.Orphans, rep.Unlisted = lists[problems.Orphan.String()].orNil(), lists[problems.NotInSitemap.String()].orNil()
	rep.SameTitle, rep.SameContent = sameOf(res, problems.TitleDuplicate), sameOf(res, problems.DuplicateExact)
	return res, nil
}

// problemTable is problems.parquet: the lines of problems.jsonl, with the severity of their problems.
type problemTable struct {
	out        *parquet.Writer
	severities map[string]string // by code
}

func newProblemTable(w io.Writer) (*problemTable, error) {
	t := &problemTable{severities: map[string]string{}}
	for _, d := range problems.Table() {
		t.severities[d.Name] = d.Severity
	}
	var err error
	t.out, err = parquet.New(w, "Mapwright", []parquet.Column{{Name: "code", Kind: parquet.Text},
		{Name: "severity", Kind: parquet.Text}, {Name: "url", Kind: parquet.Text}, {Name: "value", Kind: parquet.Text},
		{Name: "related", Kind: parquet.Texts}, {Name: "texts", Kind: parquet.Texts},
		{Name: "part", Kind: parquet.Integer}})
	return t, err
}

// add adds a line of problems.jsonl. What it leaves out is null.
func (t *problemTable) add(e *problems.Entry) error {
	if t == nil {
		return nil
	}
	row := []any{e.Code, t.severities[e.Code], e.URL, nil, nil, nil, nil}
	if e.Value != "" {
		row[3] = e.Value
	}
	if len(e.Related) > 0 {
		row[4] = e.Related
	}
	if len(e.Texts) > 0 {
		row[5] = e.Texts
	}
	if e.Part > 0 {
		row[6] = int64(e.Part)
	}
	return t.out.Add(row)
}

// sameOf are the texts that several pages have.
func sameOf(res *problems.Result, c problems.Code) *List[problems.Same] {
	items, total := res.Same(c)
	list := &List[problems.Same]{Total: total, Cut: total - int64(len(items)), Items: items}
	list.bound(func(s *problems.Same) int { return len(s.What) + sizeOf(s.URLs...) })
	return list.orNil()
}

// readLinks finds every page that links to broken URLs or redirects, if links are recorded.
func (c *Crawl) readLinks(ctx context.Context, finder *problems.Finder) error {
	if finder.Targets() == 0 {
		return nil
	}
	for p, err := range Pages(c.Store, c.Settings.XMLTypes, c.Room)(ctx) {
		if err == nil {
			err = finder.SeeLinks(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addBroken adds a line of problems.jsonl with the code broken_link to a list. The lines of one URL follow each other.
// Named is how many bytes the pages have that earlier calls added; added is how many those of this call have.
func addBroken(list *List[Broken], e *problems.Entry, named int) (added int) {
	if e.Part == 0 {
		list.add(Broken{URL: e.URL})
	}
	if list.Cut > 0 || len(e.Related) == 0 {
		return 0
	}
	last := &list.Items[len(list.Items)-1]
	if last.LinkedFrom == nil {
		last.LinkedFrom = &List[string]{}
	}
	for _, from := range e.Related {
		most := maxReferrers
		if named+added > maxReferrerBytes {
			most = 1
		}
		if len(last.LinkedFrom.Items) < most {
			added += len(from)
		}
		last.LinkedFrom.addUpTo(from, most)
	}
	return added
}

// describeBroken adds what became of broken links, and where they were found first.
func (c *Crawl) describeBroken(ctx context.Context, items []Broken) error {
	hasher := c.Store.Hasher()
	for i := range items {
		b := &items[i]
		p, _, err := c.Store.Page(ctx, hasher.Key(weburl.MustCanonical(b.URL)))
		if err != nil {
			return err
		}
		if f := p.Finish; f != nil {
			b.Outcome, b.StatusCode = page.Outcome(f.Outcome).String(), int(f.Status)
		}
		switch {
		case p.Link.Source == page.SourceLink, p.Link.Source == page.SourceRedirect:
			b.FoundOn = p.Link.Parent.String()
		case b.LinkedFrom != nil:
			b.FoundOn = b.LinkedFrom.Items[0] // a start or a sitemap named it first
		}
	}
	return nil
}
