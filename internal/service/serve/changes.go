package serve

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
)

// changesView is what the page of changes shows.
type changesView struct {
	crawlFrame
	Query       map[string]string // change, from
	Changes     []string
	Counts      *ui.Table // of the last recrawl
	Fields      *ui.Table
	Rows        []changeRow
	Next, First string
	None        bool // there was no recrawl yet
}

// changeRow is a page that changed.
type changeRow struct {
	URL, Change string
	Generation  uint32
	CheckedAt   page.Time
	Fields      []changedField
}

// changedField is a fact before and after.
type changedField struct{ Name, Before, After string }

const shownChanges = 100

func (c *call) showChanges(crawl *service.Crawl) error {
	v := &changesView{crawlFrame: c.crawlFrame(crawl, "changes", "Changes"),
		Query: c.values("change", "from")}
	for _, change := range page.Changes() {
		if change != page.Unchanged {
			v.Changes = append(v.Changes, change.String())
		}
	}
	if change := v.Query["change"]; change != "" && !slices.Contains(v.Changes, change) {
		return refuse(service.ErrInvalid, "There is no such change.")
	}
	dir := c.Service.Crawls.DataDir(crawl.ID)
	rep, err := report.Read(dir)
	if err != nil {
		return err
	}
	if rep != nil && len(rep.Changes) > 0 {
		v.Counts = ui.Counts("What the last recrawl found", "Change", "URLs", rep.Changes,
			func(name string) string { return v.Path + "/pages?change=" + url.QueryEscape(name) })
		if len(rep.ChangedFields) > 0 {
			v.Fields = ui.ChangedFields(rep)
		}
	}
	f, err := os.Open(dir.Changes())
	if missing(err) {
		v.None = true
		return c.render(http.StatusOK, "changes", v)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := v.read(c.ctx, f); err != nil {
		return err
	}
	return c.render(http.StatusOK, "changes", v)
}

// read reads the next changes of the file from a place on.
func (v *changesView) read(ctx context.Context, f io.ReadSeeker) error {
	at, _ := strconv.ParseInt(v.Query["from"], 10, 64) // a text that is not a number means the beginning
	at = max(at, 0)
	if at > 0 {
		v.First = address(v.Path+"/changes", v.Query, "from", "")
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return err
	}
	for in := bufio.NewReaderSize(f, 256<<10); ; {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		err = cmp.Or(err, ctx.Err()) // the client may have gone
		if err != nil {
			return err
		}
		var l recrawl.Line
		if json.Unmarshal(bytes.TrimSpace(text), &l) == nil &&
			slices.Contains([]string{"", l.Change}, v.Query["change"]) {
			if len(v.Rows) == shownChanges {
				v.Next = address(v.Path+"/changes", v.Query, "from", strconv.FormatInt(at, 10))
				return nil
			}
			v.Rows = append(v.Rows, v.row(&l))
		}
		at += int64(len(text))
	}
}

func (v *changesView) row(l *recrawl.Line) changeRow {
	row := changeRow{URL: l.URL, Change: l.Change, Generation: l.Generation, CheckedAt: l.CheckedAt}
	for _, name := range slices.Sorted(maps.Keys(l.Fields)) {
		row.Fields = append(row.Fields, changedField{strings.ReplaceAll(name, "_", " "),
			settingText(l.Fields[name].Before), settingText(l.Fields[name].After)})
	}
	return row
}
