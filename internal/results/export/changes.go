package export

import (
	"context"
	"encoding/json"
	"iter"
	"path/filepath"

	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
)

// Changes is where the lines of changes.jsonl come from, in a stable order.
type Changes func(ctx context.Context) iter.Seq2[*recrawl.Line, error]

// writeChanges writes changes.jsonl under its temporary name.
func writeChanges(ctx context.Context, dir string, lines Changes) (f *datadir.File, n int64, err error) {
	if f, err = datadir.Create(filepath.Join(dir, datadir.ChangesName), datadir.Public); err != nil {
		return nil, 0, err
	}
	enc := json.NewEncoder(page.EscapingWriter{Writer: f})
	enc.SetEscapeHTML(false)
	for l, err := range lines(ctx) {
		if err == nil {
			err = enc.Encode(l)
		}
		if err != nil {
			return f, n, err
		}
		n++
	}
	return f, n, nil
}
