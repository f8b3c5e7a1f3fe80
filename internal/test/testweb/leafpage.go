package testweb

import (
	"fmt"
	"strings"
)

// simplePage is a small page of a fault's own.
func simplePage(title, body string) string {
	return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + title +
		"</title>\n</head>\n<body>\n<h1>" + title + "</h1>\n" + body + "</body>\n</html>\n"
}

// sizedPage is a page of so many bytes, or as few as a page can have.
func sizedPage(title string, size int) string {
	bare := simplePage(title, "<p></p>\n")
	return simplePage(title, "<p>"+strings.Repeat(".", max(0, size-len(bare)))+"</p>\n")
}

// anchors writes a list of links.
func anchors(hrefs ...string) string {
	var b strings.Builder
	for _, h := range hrefs {
		fmt.Fprintf(&b, "<p><a href=\"%s\">%s</a></p>\n", h, h)
	}
	return b.String()
}

// pageLeaf is a leaf with a simple page without links.
func pageLeaf(uri, title string) leaf {
	body := simplePage(title, "")
	return leaf{
		uri:     uri,
		answer:  func(x *exchange) { x.html(body) },
		verdict: func(Crawl) verdict { return ok(title) },
	}
}

// linked returns the leaf as one that the tree links to by its URI.
func (l leaf) linked() leaf {
	l.href = l.uri
	return l
}

// baited returns the leaf as one that no correct crawl asks for.
func (l leaf) baited() leaf {
	l.bait = true
	return l
}

func follow(uris ...string) []leafLink {
	links := make([]leafLink, len(uris))
	for i, u := range uris {
		links[i] = leafLink{uri: u}
	}
	return links
}
