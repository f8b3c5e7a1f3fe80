// Package recrawl visits the URLs of a crawl again.
//
// A [Sweeper] queues the visits: all pages that are due in a recrawl, those with links that narrower rules left out,
// and those of a host whose answers 304 turned out to be false. [Visits] decides how each page is asked for, and
// remembers what one visit means for others, such as hosts whose answers 304 are not believed.
//
// The rules themselves do no I/O and keep no state. [Conditions] returns the headers of a visit's request.
// [TakeHeaders] takes from every answer, in any crawl, the facts that a later visit needs. [Judge] compares the answer
// with what is known of the URL; its [Verdict] is what to record, or that the page has to be read again.
package recrawl
