package testweb

import (
	"fmt"
	"strconv"
)

const (
	pageFoot = "</p>\n<footer><a href=\"#top\">Top</a> <a href=\"mailto:desk@example.com?subject=Page\">Write to " +
		"us</a> " +
		"<a href=\"tel:+441632960123\">Call</a> <a href=\"javascript:history.back()\">Back</a> " +
		"<a href=\"data:text/plain,note\">Note</a> <img src=\"/static/logo.png\" alt=\"\"></footer>\n</body>\n</html>\n"
	// linkRoom is what a link's markup takes at most, beyond its origin; a page keeps that
	// much for each link when it spreads its text between them.
	linkRoom = 54
)

// appendPage appends the body that a page of the tree, an orphan or a page that has moved has in a generation.
func (w *web) appendPage(dst []byte, from ref, gen int) []byte {
	start := len(dst)
	st := w.state(from, gen)
	original := w.original(from.host, from.node)
	hash := nodeHash(w.cfg.Seed, from.host, original)
	dst = append(dst, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>"...)
	dst = appendTitle(dst, hash, original)
	at := len(dst)
	dst = appendTitleChange(dst, st.title)
	start += len(dst) - at // what changes while the text stays is not counted, so that the text keeps its length
	dst = append(dst, "</title>\n<meta name=\"description\" content=\"About "...)
	dst = appendWords(dst, hash>>16)
	dst = append(dst, " and "...)
	dst = appendWords(dst, hash>>32)
	dst = append(dst, "\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"stylesheet\" "+
		"href=\"/static/site.css\">\n<link rel=\"canonical\" href=\""...)
	dst = w.appendOrigin(dst, from.host)
	dst = w.appendURI(dst, from.host, w.canonicalNode(from.node, st))
	dst = append(dst, "\">\n"...)
	if st.elsewhere {
		start += len("/") - len(w.appendURI(nil, from.host, from.node))
	}
	at = len(dst)
	dst = st.appendToHead(dst, hash, gen)
	start += len(dst) - at
	dst = append(dst, "</head>\n<body id=\"top\">\n<h1>"...)
	dst = appendWords(dst, hash)
	dst = append(dst, "</h1>\n<p>"...)
	prose := hash
	if st.prose > 0 {
		prose = etag(hash, st.prose)
	}
	if st.kind == pageCounter {
		dst = appendCounter(dst, gen)
	}

	room := w.cfg.PageSize - (len(dst) - start) - len(pageFoot)
	gap := max(0, room/(w.cfg.Links+1)-linkRoom-w.originLen())
	n := 0
	for it := w.links(from, gen); it.next(); n++ {
		if n%3 == 2 {
			dst = append(dst, parBreak...)
		}
		dst = w.text.appendText(dst, prose+uint64(n)*769, gap, st.prose)
		dst = w.appendLink(dst, &it)
	}
	dst = w.text.appendText(dst, prose>>20, w.cfg.PageSize-(len(dst)-start)-len(pageFoot), st.prose)
	return append(dst, pageFoot...)
}

// canonicalNode is the page that a page names as its canonical one.
func (w *web) canonicalNode(node int, st pageState) int {
	if st.elsewhere {
		return 0
	}
	return node
}

// appendToHead appends what some kinds of pages have in their head.
func (s *pageState) appendToHead(dst []byte, hash uint64, gen int) []byte {
	switch {
	case s.noindex && s.kind == pageNoIndex:
		return append(dst, "<meta name=\"robots\" content=\"noindex\">\n"...)
	case s.kind == pageTokens:
		token := strconv.FormatUint(etag(hash, gen), 16)
		return fmt.Appendf(dst, "<meta name=\"csrf-token\" content=\"%s\">\n<!-- rendered %d -->\n"+
			"<script nonce=\"%s\" data-time=\"%d\">var state = {token: \"%s\"};</script>\n", token, gen, token,
			1_000_000+gen, token)
	}
	return dst
}

// appendCounter appends the text of a counter: a number that crawlers cannot take for a date or a time.
func appendCounter(dst []byte, gen int) []byte {
	return fmt.Appendf(dst, "This page was read %d times. ", 1_000_000+gen)
}

// appendLink writes a link in one of the many ways a link to the same URL can be
// written.
func (w *web) appendLink(dst []byte, it *linkIter) []byte {
	dst = append(dst, " <a href=\""...)
	switch {
	case it.leaf != nil:
		dst = append(dst, it.leaf.href...)
		if it.leaf.nofollow {
			dst = append(dst, "\" rel=\"nofollow"...)
		}
	case it.to.host != it.from.host:
		if it.shape>>8&3 == 0 {
			dst = append(dst, "//"...)
			dst = w.names.append(dst, it.to.host)
			dst = append(dst, w.port...)
		} else {
			dst = w.appendOrigin(dst, it.to.host)
		}
		dst = w.appendURI(dst, it.to.host, it.to.node)
	default:
		dst = w.appendLocalHref(dst, it.from, it.to, it.shape>>8&15)
	}
	dst = append(dst, "\">"...)
	dst = appendWords(dst, it.shape>>16)
	return append(dst, "</a> "...)
}

// appendLocalHref writes a link to another page of the same tree, as one of sixteen
// styles has it. All styles resolve to the same canonical URL.
func (w *web) appendLocalHref(dst []byte, from, to ref, style uint64) []byte {
	if to.node == 0 {
		if style < 8 {
			return append(dst, '/')
		}
		return w.appendURI(w.appendOrigin(dst, to.host), to.host, to.node)
	}
	dir, up := to.node%dirs, "../"
	if from.node == 0 {
		up = ""
	}
	switch style {
	case 0, 1, 2, 3:
		if from.node != 0 && from.node < w.cfg.Pages && from.node%dirs == dir {
			return appendPageName(dst, to.node)
		}
		return appendPagePath(append(dst, up...), dir, to.node)
	case 4, 5, 6:
		return w.appendURI(w.appendOrigin(dst, to.host), to.host, to.node)
	case 7:
		dst = append(dst, "//"...)
		dst = w.names.append(dst, to.host)
		dst = append(dst, w.port...)
		return w.appendURI(dst, to.host, to.node)
	case 8:
		dst = w.appendURI(dst, to.host, to.node)
		return append(dst, "#more"...)
	case 9: // dot segments
		dst = append(dst, "/x/.././"...)
		return appendPagePath(dst, dir, to.node)
	case 10: // a "d" that needs no escape
		dst = append(dst, "/%64"...)
		dst = strconv.AppendInt(dst, int64(dir), 10)
		return appendPageName(append(dst, '/'), to.node)
	case 11: // letters of scheme and host have no case
		at := len(dst)
		dst = w.appendOrigin(dst, to.host)
		for i, c := range dst[at:] {
			if c >= 'a' && c <= 'z' {
				dst[at+i] = c - ('a' - 'A')
			}
		}
		return w.appendURI(dst, to.host, to.node)
	default:
		return w.appendURI(dst, to.host, to.node)
	}
}

// appendPagePath appends "d3/p35.html".
func appendPagePath(dst []byte, dir, node int) []byte {
	dst = append(dst, 'd')
	dst = strconv.AppendInt(dst, int64(dir), 10)
	dst = append(dst, '/')
	return appendPageName(dst, node)
}

func appendPageName(dst []byte, node int) []byte {
	dst = append(dst, 'p')
	dst = strconv.AppendInt(dst, int64(node), 10)
	return append(dst, ".html"...)
}
