// Package parser reads a page once and returns its links and facts.
//
// A [Parser] is made from [Options] by [New], never changes after that, and is
// shared by all workers. A [Page] is where one result goes; a worker keeps one
// and hands it to [Parser.Parse] again and again, because it carries the buffers
// that make the next parse nearly free of allocation. Strings and URLs in a
// Page are immutable and may be kept for ever; its slices, and what
// [Page.URLText] returns, are overwritten by the next Parse. Parsing is pure: no
// clock, no network, no goroutine, and the same input gives the same Page.
//
// # How a page is read
//
// There is no tree. A scanner walks over the bytes once, from one '<' to the
// next, counting words on the way, and reads each tag as the tokenization
// chapter of the HTML standard says: comments with all their odd endings,
// bogus comments, doctypes, raw text (script with its escaped states, style,
// textarea, title, xmp, iframe, noembed, noframes, plaintext), attributes in
// every quoting, character references, duplicate attributes of which the first
// counts, and input that ends anywhere. What only a tree builder can know is
// approximated where it matters:
//
//   - Inside svg and math, raw text elements are ordinary ones and CDATA
//     sections are text. The scanner follows the nesting of these two, their
//     integration points and the HTML tags that break out of them. A CDATA
//     section directly inside an integration point is read as a bogus comment.
//   - What is inside template is inert and gives no links, words or facts, unless
//     the template is a declarative shadow root.
//   - What is inside noscript counts, because no script is run; only a base
//     element there is ignored, for it would move the links of the whole page,
//     which were written for readers with scripts.
//   - XHTML (by its Content-Type) is read as HTML, but an element that is closed in its start tag has no content.
//   - An a element ends at its end tag, at the next a, or at the end of the page.
//
// # Links
//
// Links come from a, area, iframe and frame elements, from link elements whose
// rel is canonical, next, prev, alternate (but not of stylesheets) or amphtml, from
// meta refresh, from Link header fields with the same relations and from Location;
// images on request. They stand in the order of the page, header fields first.
// All but those of the header resolve against the first base element with an
// href, even those written before it, as in a browser.
//
// # Words
//
// A word is a maximal run of letters, marks and numbers (Unicode categories L,
// M and N) in the page's text; an apostrophe (' or ’) between two of these does
// not end it, a soft hyphen or a zero-width joiner neither. Han, Hiragana and
// Katakana, which are written without spaces, count one word per character.
// Other scripts without spaces count by the run. Character references are
// decoded first. Tags of phrasing elements such as b, em, span or a do not end a
// word, all other tags do. Text inside template and in raw text elements (among
// them title and textarea) is not counted; text inside noscript is.
//
// # Bounds
//
// A page may be hostile. The number of links, the bytes kept for them and the
// length of every fact are bounded ([Options], and constants beside the facts);
// [Page.Truncated] tells when links were left out. Time is linear in the size
// of the body.
package parser
