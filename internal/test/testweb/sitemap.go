package testweb

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	xmlHead      = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	sitemapSpace = " xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n"
)

// isSitemapPlace reports whether a crawler asks for this in search of sitemaps.
// The places where there is none are answered 404, and asking for them is no fault.
func isSitemapPlace(uri []byte) bool {
	return slices.ContainsFunc([]string{"/sitemap", "/wp-sitemap", "/feed", "/rss", "/atom"},
		func(p string) bool { return bytes.HasPrefix(uri, []byte(p)) })
}

// sitemap answers a request for a sitemap: /sitemap.xml, and /sitemap-0.xml and so on,
// with .gz where they are gzipped, if the former is an index.
func (x *exchange) sitemap() {
	w := x.s.web
	s := w.cfg.Sitemaps
	if s == nil || x.h.plan.moved != nil {
		x.text(http.StatusNotFound, "no sitemap\n")
		return
	}
	total := w.leafBase()
	parts := (total + s.PerFile - 1) / s.PerFile
	indexed := parts > 1 || s.Gzip
	if string(x.req.uri) == "/sitemap.xml" {
		out := x.stream("application/xml", "", -1)
		if indexed {
			w.writeSitemapIndex(out, x.h.id, parts)
		} else {
			w.writeSitemap(out, x.h.id, 0, total, x.gen)
		}
		out.close()
		return
	}
	suffix := ".xml"
	if s.Gzip {
		suffix = ".xml.gz"
	}
	name, ok1 := bytes.CutPrefix(x.req.uri, []byte("/sitemap-"))
	name, ok2 := bytes.CutSuffix(name, []byte(suffix))
	part, ok3 := parseIndex(name)
	if !indexed || !ok1 || !ok2 || !ok3 || part >= parts {
		x.text(http.StatusNotFound, "no such sitemap\n")
		return
	}
	first, last := part*s.PerFile, min((part+1)*s.PerFile, total)
	if !s.Gzip {
		out := x.stream("application/xml", "", -1)
		w.writeSitemap(out, x.h.id, first, last, x.gen)
		out.close()
		return
	}
	out := x.stream("application/gzip", "", -1)
	z := gzip.NewWriter(out)
	w.writeSitemap(z, x.h.id, first, last, x.gen)
	z.Close()
	out.close()
}

func (w *web) writeSitemapIndex(out io.Writer, host, parts int) {
	b := append([]byte(xmlHead+"<sitemapindex"), sitemapSpace...)
	for i := range parts {
		b = append(b, "<sitemap><loc>"...)
		b = w.appendOrigin(b, host)
		b = append(b, "/sitemap-"...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, ".xml"...)
		if w.cfg.Sitemaps.Gzip {
			b = append(b, ".gz"...)
		}
		b = append(b, "</loc></sitemap>\n"...)
	}
	out.Write(append(b, "</sitemapindex>\n"...))
}

// writeSitemap lists the nodes from first up to last, as far as they are listed in a generation. A page that has moved
// is listed where it is now.
func (w *web) writeSitemap(out io.Writer, host, first, last int, gen *generation) {
	b := append([]byte(xmlHead+"<urlset"), sitemapSpace...)
	for node := first; node < last; node++ {
		now, lastMod, ok := w.listed(ref{host, node}, gen)
		if !ok {
			continue
		}
		b = append(b, "<url><loc>"...)
		b = w.appendOrigin(b, host)
		b = w.appendURI(b, host, now)
		b = append(b, "</loc>"...)
		if !lastMod.IsZero() {
			b = append(b, "<lastmod>"...)
			b = lastMod.AppendFormat(b, "2006-01-02T15:04:05Z")
			b = append(b, "</lastmod>"...)
		}
		b = append(b, "<priority>0."...)
		b = append(b, '1'+byte(node%9))
		b = append(b, "</priority></url>\n"...)
		if len(b) >= streamPiece {
			if _, err := out.Write(b); err != nil {
				return
			}
			b = b[:0]
		}
	}
	out.Write(append(b, "</urlset>\n"...))
}

// listed says under which node the sitemap lists a page of the tree or an orphan in a generation, and what it says of
// when it changed. Pages that are gone, redirect to another page, or are hidden are not listed.
func (w *web) listed(r ref, gen *generation) (node int, lastMod time.Time, ok bool) {
	st := w.state(r, gen.n)
	node = r.node
	if st.kind == pageMove && st.status != http.StatusOK {
		node = st.to
		st = w.state(ref{r.host, node}, gen.n)
	}
	if st.status != http.StatusOK || st.hidden {
		return 0, time.Time{}, false
	}
	hash, s := nodeHash(w.cfg.Seed, r.host, r.node), w.cfg.Sitemaps
	switch {
	case s.LastMod == "" || gen.n < s.LastModFrom:
		lastMod = gen.modified(hash, st.content)
	case s.LastMod == "all":
		lastMod = gen.modified(hash, gen.n)
	case s.LastMod == "stuck":
		lastMod = gen.modified(hash, 0)
	}
	return node, lastMod, true
}
