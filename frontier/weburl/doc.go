// Package weburl gives every http and https URL one form, and that form an
// identity.
//
// A reference found on a page goes through two steps. The first is the WHATWG URL Standard, so that a link means here
// what it means in a browser: backslashes, stray tabs, short IPv4 addresses, international host names, dot segments and
// default ports are all settled as the standard says. The second is the canonical form, which removes differences that
// no server can see or may treat differently: the fragment and the user information are dropped, escapes are written
// with upper-case hex, and escapes of unreserved characters (letters, digits, "-", ".", "_", "~") are undone. Nothing
// else is touched. Case and order of paths and queries stay, and so does an empty query: a server is sent "/a?" and may
// answer it differently from "/a".
//
// A host that is not ASCII and longer than the DNS allows is refused, which the standard does not do: to convert it
// would take long.
//
// References are read as UTF-8, and so are the queries in them. The standard has queries of a page in an older encoding
// escaped in that encoding; a caller that needs this has to escape them before.
//
// Parse and URL.Resolve make URLs, URL.AppendResolve makes the text alone
// without allocating, and FromCanonical takes back text that this package
// wrote earlier. A URL is an immutable value and may be shared freely; all
// functions may be called from any goroutine.
//
// A crawl may leave parameters of queries out of the identity, such as utm_source: Params removes them from a URL that
// is canonical already.
//
// Canonicalising is idempotent: the text of a URL parses to itself. The identity is computed from that text. A Hasher
// turns it into a Key (a host prefix, then 128 bits of URL) under a seed that each crawl draws at random. Keys lie on
// disk, so a program that computes them differently must not continue a crawl: Identity names the rules in use, and
// stores compare it. The public suffix list, from which a host's partition follows, is embedded and frozen for the same
// reason (suffixes.txt, under the Mozilla Public License 2.0).
//
// Most links on most pages are already clean. For these a single scan shows that nothing has to change, and the result
// is put together from pieces of base and reference. Whatever the scan does not recognise goes to the complete parser,
// and a fuzz test checks that both give the same answers.
package weburl
