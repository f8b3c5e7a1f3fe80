// Package htmltree builds a tree of an HTML page for CSS selectors, within limits of memory and time.
//
// The tree construction of the HTML standard copies formatting elements: each <p> inside an unclosed <b> gets a <b> of
// its own. In this way a page of a few kilobytes can make a tree of millions of nodes, and x/net/html, which follows
// the standard, can neither be limited nor interrupted. This package makes at most one node of each token, and the few
// that tags imply. It differs from the standard where markup is misnested:
//
//   - A formatting element that is not closed ends with the element that it is in, and is not opened again.
//   - An end tag of a formatting element is ignored while a block is open inside that element.
//   - Content of a table that is not in a cell is moved before the table, as the standard says, one element at a time.
//
// Where the standard implies tags (html, head, body, tbody, tr, colgroup; ends of p, li, dt, dd, option, cells and
// rows), so does this package: TestSameTree compares the two on pages that are nested properly. Comments and the
// doctype are left out, because no selector sees them.
package htmltree
