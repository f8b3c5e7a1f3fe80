// Package sitemaptest checks XML sitemaps against their schemas, for the tests of packages that write them.
//
// The schemas of sitemaps.org are public data that the project does not copy: they are found as all conformance data
// is. A document is only checked to be well-formed where they or xmllint are missing, except in CI, where that is a
// failure. The schemas of the extensions, cut down to what the project writes, are here. A driver schema puts them
// together, since the public ones admit an element of another namespace only where its schema is loaded.
package sitemaptest
