package crawl

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// A loggedFetcher writes one line for each request when it has been answered or has failed.
type loggedFetcher struct {
	fetch.Fetcher
	log *slog.Logger
}

// withLog adds the lines of requests to a fetcher, if the log takes them.
func withLog(f fetch.Fetcher, log *slog.Logger) fetch.Fetcher {
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return f
	}
	return loggedFetcher{f, log}
}

// Do implements fetch.Fetcher.
func (f loggedFetcher) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	resp, err := f.Fetcher.Do(ctx, r)
	if errors.Is(err, frontier.ErrAddressBusy) {
		return resp, err // it is requested when its turn has come
	}
	if err != nil {
		f.log.Debug("not fetched", "url", r.URL.String(), "error", err)
		return resp, err
	}
	args := []any{"url", r.URL.String(), "status", resp.Status, "type", resp.ContentType}
	if method := r.Method(); method != http.MethodGet {
		args = append(args, "method", method)
	}
	if resp.Reader == nil { // a stream has only begun
		args = append(args, "bytes", resp.WireBytes, "took", resp.Timings.Total)
	}
	if resp.Location != "" {
		args = append(args, "location", resp.Location)
	}
	f.log.Debug("fetched", args...)
	return resp, nil
}
