// Command smallcrawler crawls one host with Mapwright's public packages and nothing else: frontier decides which URL
// may be fetched next, state keeps everything on disk, parser finds the links of a page. It obeys robots.txt and goes
// on where it stopped, also after a kill:
//
//	smallcrawler -data DIRECTORY URL
//
// When nothing is left to fetch it prints every URL that it knows. It is an example of how the packages work together;
// command mapwright does more. It reads pages in UTF-8 only, and follows no redirect of robots.txt.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/parser"
	"github.com/mapwright/mapwright/state"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "smallcrawler:", err)
		os.Exit(1)
	}
}

// run crawls as the arguments say. It writes a line to progress for each finished URL, and the whole list to out at the
// end.
func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	flags := flag.NewFlagSet("smallcrawler", flag.ContinueOnError)
	dir := flags.String("data", "smallcrawler-data", "`directory` of the crawl")
	workers := flags.Int("workers", 8, "`number` of requests under way at once")
	ownSite := flags.Bool("own-site", false, "the site is yours: send requests as fast as it answers them")
	proxy := flags.String("proxy", "", "`URL` of an HTTP proxy")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("want one argument, the URL to start from")
	}
	start, err := frontier.ParseLink(flags.Arg(0))
	if err != nil {
		return err
	}
	client, err := newClient(*proxy)
	if err != nil {
		return err
	}
	p, err := parser.New(parser.Options{RobotsToken: agent})
	if err != nil {
		return err
	}
	config := pace.Polite()
	if *ownSite {
		config = pace.OwnSite()
	}

	store, err := state.Open(*dir, state.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	f, err := openFrontier(ctx, store, config)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Add(ctx, []frontier.Link{start}); err != nil { // adds nothing if an earlier run did
		return err
	}
	c := &crawler{store: store, frontier: f, client: client, parser: p, host: start.URL.Host(), progress: progress}
	if err := c.crawl(ctx, *workers); err != nil {
		return err
	}
	return list(ctx, store, out)
}

// openFrontier returns a frontier over the store that knows everything which earlier runs committed.
func openFrontier(ctx context.Context, store *state.Store, config pace.Config) (*frontier.Frontier, error) {
	f, err := frontier.New(frontier.Options{Seed: store.Seed(), Pace: config}, store)
	if err != nil {
		return nil, err
	}
	if err := f.Resume(ctx, store.Backlogs(ctx, 0, 255)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// The frontier takes a URL for new unless it is told its key. A large crawl saves the frontier's filters with
	// Store.Checkpoint, and reads only the keys that were committed after it.
	for key, err := range store.Keys(ctx, 0, 255) {
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Remember([]weburl.Key{key})
	}
	return f, nil
}

// list prints all URLs of the crawl, one a line: outcome, status, URL, and then the title or where the URL redirects
// to.
func list(ctx context.Context, store *state.Store, out io.Writer) error {
	if err := store.Flush(ctx); err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	for page, err := range store.Pages(ctx) {
		if err != nil {
			return err
		}
		if page.Finish == nil { // its host failed too often: the next run tries it again
			fmt.Fprintf(w, "pending\t0\t%s\t\n", page.Link.URL)
			continue
		}
		what := string(page.Finish.Facts)
		if page.Finish.RedirectTo != "" {
			what = page.Finish.RedirectTo
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", outcome(page.Finish.Outcome), page.Finish.Status, page.Link.URL, what)
	}
	return w.Flush()
}
