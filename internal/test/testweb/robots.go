package testweb

import (
	"fmt"
	"strconv"
	"strings"
)

// robots answers a request for robots.txt.
func (x *exchange) robots() {
	r := &x.h.plan.robots
	switch {
	case r.Hang:
		x.c.wait(-1)
		x.gone()
		return
	case r.RetryAfter > 0:
		Answer{Status: r.Status, RetryAfter: r.RetryAfter}.refuse(x)
		return
	case r.Status != 0:
		x.text(r.Status, "no rules here\n")
		return
	}
	hop, err := strconv.Atoi(strings.TrimPrefix(string(x.req.uri), "/robots.txt?hop="))
	if err != nil {
		hop = 0
	}
	if hop < r.Redirects {
		x.redirect(302, x.h.id, "/robots.txt?hop="+strconv.Itoa(hop+1))
		return
	}
	x.text(200, x.s.web.robotsText(x.h.id, x.gen.n))
}

// robotsText is the robots.txt of a host in a generation.
func (w *web) robotsText(host, gen int) string {
	r := &w.plans[host].robots
	var b strings.Builder
	if r.agent != "" {
		b.WriteString("User-agent: *\nDisallow: /\n\n")
		b.WriteString("User-agent: " + r.agent + "\n")
	} else {
		b.WriteString("User-agent: *\n")
	}
	if r.delay > 0 {
		b.WriteString("Crawl-delay: " + strconv.FormatFloat(r.delay.Seconds(), 'f', -1, 64) + "\n")
	}
	if r.rules {
		b.WriteString("Disallow: /private/ # all but what is open\nAllow: /private/open/\nDisallow: /*.cgi$\n")
	} else {
		b.WriteString("Disallow:\n")
	}
	if w.changes.disallows {
		for node := range w.leafBase() {
			if w.state(ref{host, node}, gen).disallowed {
				b.WriteString("Disallow: ")
				b.Write(append(w.appendURI(nil, host, node), '\n'))
			}
		}
	}
	if r.Size > 0 {
		const late = "Disallow: /late/\n"
		for i := 0; b.Len()+len(late) < r.Size; i++ {
			fmt.Fprintf(&b, "# padding %050d\n", i)
		}
		b.WriteString(late)
	}
	if s := w.cfg.Sitemaps; s != nil && !s.Unlisted && r.Size <= robotsLimit {
		b.WriteString("\nSitemap: ")
		b.Write(w.appendOrigin(nil, host))
		b.WriteString("/sitemap.xml\n")
	}
	return b.String()
}
