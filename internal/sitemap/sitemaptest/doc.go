// Package sitemaptest holds XML sitemaps to their schemas, for the tests of whoever writes them.
//
// The schemas of sitemaps.org are public data that the project does not copy: they are found as all conformance data is, and a test
// without them skips, except in CI. Those of the extensions, cut down to what the project writes, are here. They are put together by a
// driver schema, since the public ones admit an element of another namespace only where its schema is loaded. xmllint does the rest.
package sitemaptest
