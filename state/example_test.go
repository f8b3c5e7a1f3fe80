package state_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state"
)

// A store keeps what a frontier records. Another run opens the directory again: it finds what is finished, and what is
// not.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := state.Open(dir, state.Options{})
	if err != nil {
		log.Fatal(err)
	}
	f, err := frontier.New(frontier.Options{Seed: store.Seed(), IgnoreRobots: true}, store)
	if err != nil {
		log.Fatal(err)
	}
	start, err := frontier.ParseLink("http://a.example/")
	if err != nil {
		log.Fatal(err)
	}
	found, err := frontier.ParseLink("http://a.example/found")
	if err != nil {
		log.Fatal(err)
	}
	f.Add(ctx, []frontier.Link{start})
	lease, err := f.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	lease.Done(frontier.Result{Finish: &frontier.Finish{Status: 200}, Links: []frontier.Link{found}})
	f.Close()
	store.Close()

	store, err = state.Open(dir, state.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for page, err := range store.Pages(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(page.Link.URL, page.Finish != nil)
	}
	// Unordered output:
	// http://a.example/ true
	// http://a.example/found false
}
