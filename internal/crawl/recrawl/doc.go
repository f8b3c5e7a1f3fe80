// Package recrawl judges what another visit of a URL found: what to ask the server, whether the page changed, what is
// to be recorded, and when the text was last modified. It does no I/O and keeps no state.
//
// Before a visit, [Conditions] are the headers of its request. Of every answer, in any crawl, [TakeHeaders] takes the
// facts that a later visit needs. [Judge] compares the answer with what is known of the URL; its [Verdict] is what to
// record, or that the page has to be read again.
package recrawl
