package weburl_test

import (
	"fmt"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A link is read as a browser reads it, and two spellings of one URL have one form and one key.
func Example() {
	page, err := weburl.Parse("HTTP://Shop.Example:80/a/../caf%c3%a9?x=%41#top")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(page)
	link, err := page.Resolve(`..\b`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(link.Origin(), link.RequestURI(), weburl.RegistrableDomain(link.Host()))

	h := weburl.NewHasher(1) // a crawl draws its seed at random and keeps it
	same, _ := weburl.Parse("http://shop.example/b")
	fmt.Println(h.Key(link) == h.Key(same), h.Key(link).Host == h.HostID("shop.example"))
	// Output:
	// http://shop.example/caf%C3%A9?x=A
	// http://shop.example /b shop.example
	// true true
}
