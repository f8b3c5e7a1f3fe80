package parser_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/mapwright/mapwright/parser"
)

func Example() {
	p, err := parser.New(parser.Options{})
	if err != nil {
		log.Fatal(err)
	}
	base, err := parser.ParseURL("https://example.com/walks/")
	if err != nil {
		log.Fatal(err)
	}
	var page parser.Page // one per worker, used again and again
	err = p.Parse(&page, parser.Input{
		URL:    base,
		Header: http.Header{"X-Robots-Tag": {"noarchive"}},
		Body: []byte(`<html lang=en><title>Walks &amp; tides</title>
			<h1>Walks</h1> <p>Two of them:
			<a href="harbour?from=north">the <b>harbour</b></a>,
			<a href="/old/" rel=nofollow>the old town</a>`),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s | %s | %s | %s | %d words\n", page.Title, page.H1, page.Language, page.RobotsMeta, page.WordCount)
	for _, l := range page.Links {
		fmt.Println(l.Kind, l.URL, l.Text, l.NoFollow)
	}
	// Output:
	// Walks & tides | Walks | en | noarchive | 9 words
	// a https://example.com/walks/harbour?from=north the harbour false
	// a https://example.com/old/ the old town true
}

func ExampleParseExtractor() {
	price, err := parser.ParseExtractor("price=.product .price@data-amount")
	if err != nil {
		log.Fatal(err)
	}
	p, err := parser.New(parser.Options{Extract: []parser.Extractor{price}})
	if err != nil {
		log.Fatal(err)
	}
	var page parser.Page
	err = p.Parse(&page, parser.Input{Body: []byte(`<div class=product><b class=price data-amount=12.50>12½</b></div>`)})
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range page.Extracted {
		fmt.Println(x.Name, x.Values)
	}
	_, err = parser.ParseExtractor("price=div[")
	fmt.Println(err != nil)
	// Output:
	// price [12.50]
	// true
}
