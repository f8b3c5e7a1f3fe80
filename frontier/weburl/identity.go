package weburl

import (
	"crypto/sha256"
	"fmt"
	"io"
	"sync"

	"golang.org/x/net/idna"
)

// urlRules is the version of everything in this package that decides the canonical form of a URL or its Key, except for
// the tables, which Identity names separately. It is raised with every change after which some URL has another
// canonical form or another Key; TestIdentityOfURLs fails otherwise.
const urlRules = 1

// Identity returns a text that names the rules from which keys and partitions follow, such as "url=1 idna=15.0.0
// suffixes=2026-02-06/e8d1249e": the version of the rules by which URLs are normalised and hashed, the Unicode version
// of the IDNA tables, and the date of the public suffix list with the beginning of the SHA-256 of its rules. Programs
// with the same Identity compute the same keys. A program must not add to data whose keys were computed under another
// Identity.
func Identity() string { return identity() }

var identity = sync.OnceValue(func() string {
	h := sha256.New()
	for rule := range suffixRules() {
		io.WriteString(h, rule)
		io.WriteString(h, "\n")
	}
	return fmt.Sprintf("url=%d idna=%s suffixes=%s/%x", urlRules, idna.UnicodeVersion, suffixDate(), h.Sum(nil)[:4])
})
