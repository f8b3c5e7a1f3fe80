// Package robots reads robots.txt files and decides, as RFC 9309 says, which
// paths a crawler may fetch. It is pure: it fetches nothing and keeps nothing.
//
// A file is parsed once into a [File], which holds every group of it. Asking the
// file for one product token ([File.Agent]) merges that crawler's groups into
// [Rules], compiled for matching, and the File can be forgotten. Rules are
// immutable and may be shared by any number of goroutines. They hold the lines of
// that one crawler only. A store should keep the file as it was served: parsing
// and compiling a usual file takes 30 µs, and one of [MaxSize] 10 to 60 ms.
//
// # What decides
//
// The longest pattern that matches wins, counted in octets of its normal form
// with * and $ included; Allow wins a tie; where nothing matches, and for
// /robots.txt itself, the path is allowed. A group that names the crawler
// replaces the groups for *, even when it holds no rule.
//
// # Tolerance
//
// Real files are careless, so the parser takes what Google's parser takes: a byte order mark or the start of one,
// UTF-16 with a byte order mark (Google does not), any of the three line endings, a missing colon between two words,
// keys in any case, keys with something after them, and the common misspellings of them. A line counts to its 16,663rd
// byte and a file to its 512,000th; a line that the end of the limit cuts in two is left out, since half a rule says
// something else than the rule.
//
// # Where this differs from Google's parser
//
// Google compares escapes as written. RFC 9309 asks for both sides to be brought
// to one form first, and so does this package: unreserved characters are
// unescaped, everything that may not stand in a URL is escaped, and %2A and %24
// in a rule stand for a plain * and $ in a URL. In queries the characters : / ?
// and @ are the same thing escaped or not.
//
// Product tokens may hold digits, and are compared as a whole: the group of crawler1 does not govern crawler3. The
// RFC and Google end a token at its first digit.
//
// Crawl-delay is not part of the RFC. It does not close a group, as no other
// record may, and it belongs to the agents named just above it.
//
// # Cost
//
// Rules without wildcards are found by one binary search, whatever their number. Rules with wildcards are tried from
// the longest to the shortest until one matches. Those that are shorter than a rule already found are not tried, and
// those that need letters which the path lacks are skipped. One try reads path and pattern at most once each, however
// many stars there are. A file with so many near misses that all of this does not help is answered with [TooCostly],
// which refuses.
package robots
