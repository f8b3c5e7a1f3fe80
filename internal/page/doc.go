// Package page defines what is recorded of one URL: the facts that a fetch and a parse found, the outcome, and whether
// search engines may list the page. It also defines the line of sitemap.jsonl that says all this.
//
// Facts live in the store as a compact, versioned, tagged encoding ([Facts.Append], [Decode]); a [Line] is what users
// read. Both are formats that outlive the process: fields are added, never renumbered or renamed.
package page
