package frontier_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
)

// A crawl of a site of three pages, of which one answers on the second attempt.
func Example() {
	site := map[string][]string{
		"http://site.example/":      {"/about", "/news", "/about"},
		"http://site.example/about": {"/"},
		"http://site.example/news":  {"/", "/about"},
	}
	f, err := frontier.New(frontier.Options{
		Pace: pace.Config{MaxInflight: 1, MaxBackoff: time.Millisecond},
	}, frontier.NewMemStore())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()

	ctx := context.Background()
	start, err := frontier.ParseLink("http://SITE.example")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := f.Add(ctx, []frontier.Link{start}); err != nil {
		fmt.Println(err)
		return
	}
	for {
		l, err := f.Next(ctx)
		if errors.Is(err, frontier.ErrDrained) {
			fmt.Println("complete")
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := l.Start(); err != nil { // before the first byte of the request
			fmt.Println(err)
			return
		}
		var r frontier.Result
		switch {
		case l.Kind() == frontier.KindRobots:
			r = frontier.Result{Class: pace.ClassOf(404), RobotsUntil: time.Now().Add(24 * time.Hour)}
		case l.URL().String() == "http://site.example/news" && l.Attempt() == 1:
			r = frontier.Result{Class: pace.ClassOf(500), Finish: &frontier.Finish{}}
		default:
			r = frontier.Result{Class: pace.ClassOf(200), Finish: &frontier.Finish{}}
			for _, path := range site[l.URL().String()] {
				if u, err := l.URL().Resolve(path); err == nil {
					r.Links = append(r.Links, frontier.Link{URL: u, Depth: l.Link().Depth + 1})
				}
			}
		}
		d, err := l.Done(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(l.Kind(), l.URL(), d)
	}
	// Output:
	// robots http://site.example/robots.txt finished
	// page http://site.example/ finished
	// page http://site.example/about finished
	// page http://site.example/news retrying
	// page http://site.example/news finished
	// complete
}

// A limit on pages is exact, and says whether anything is left.
func ExampleErrLimit() {
	f, _ := frontier.New(frontier.Options{IgnoreRobots: true, MaxURLs: 2}, frontier.NewMemStore())
	defer f.Close()
	ctx := context.Background()
	f.Add(ctx, links("http://a.example/", "http://b.example/", "http://c.example/"))
	for {
		l, err := f.Next(ctx)
		if err != nil {
			fmt.Println(err)
			break
		}
		if err := l.Start(); err != nil {
			fmt.Println(err)
			break
		}
		l.Done(frontier.Result{Class: pace.ClassOK, Finish: &frontier.Finish{}})
	}
	fmt.Println(f.Stats().Pending, "left")
	// Output:
	// frontier has given out all page tickets
	// 1 left
}

// Code that adds links from elsewhere holds a token, so that a pause is not taken
// for the end.
func ExampleFrontier_Source() {
	f, _ := frontier.New(frontier.Options{IgnoreRobots: true}, frontier.NewMemStore())
	defer f.Close()
	ctx := context.Background()

	release := f.Source()
	go func() {
		defer release()
		f.Add(ctx, links("http://late.example/"))
	}()
	l, _ := f.Next(ctx)
	fmt.Println(l.URL())
	l.Done(frontier.Result{Finish: &frontier.Finish{}})
	_, err := f.Next(ctx)
	fmt.Println(err)
	// Output:
	// http://late.example/
	// frontier is drained
}

// A second run goes on where the first one stopped, also with what was in flight.
func ExampleFrontier_Resume() {
	store := frontier.NewMemStore()
	o := frontier.Options{IgnoreRobots: true, Pace: pace.Config{MaxInflight: 2}}
	ctx := context.Background()

	f, _ := frontier.New(o, store)
	f.Add(ctx, links("http://a.example/1", "http://a.example/2", "http://a.example/3"))
	first, _ := f.Next(ctx)
	first.Done(frontier.Result{Finish: &frontier.Finish{}})
	f.Next(ctx) // and here the first run ends
	f.Close()

	f, _ = frontier.New(o, store)
	defer f.Close()
	if err := f.Resume(ctx, store.Backlogs(ctx, 0, 255)); err != nil {
		fmt.Println(err)
	}
	for {
		l, err := f.Next(ctx)
		if err != nil {
			break
		}
		fmt.Println(l.URL())
		l.Done(frontier.Result{Finish: &frontier.Finish{}})
	}
	// Output:
	// http://a.example/2
	// http://a.example/3
}

// links are start links with the given URLs.
func links(urls ...string) []frontier.Link {
	var all []frontier.Link
	for _, u := range urls {
		l, err := frontier.ParseLink(u)
		if err != nil {
			panic(err)
		}
		all = append(all, l)
	}
	return all
}
