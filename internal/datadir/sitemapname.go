package datadir

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// hostOf is the host of a canonical URL, with its port if it has one.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// maxStem bounds the beginnings of names of files, which may have 255 bytes with all that is added to them.
const maxStem = 200

// SitemapStem begins the names of the sitemaps of a set: the name of all sitemaps of the export, "-" and the host,
// section or both. If the section is empty, the set has all pages of a host. If the host is empty, all sections are of
// one host. Different sets of an export have different ones, also where names of files are compared without case. None
// is also that of a part of another set, since neither the last label of a host name nor what follows the last dot of a
// section is a number.
//
// The port follows after "_". An IPv6 address follows after "~~", with "-" for each colon. The section follows its host
// after "__". Other bytes than lower-case letters, digits, dots and hyphens are "~" and two digits in hexadecimal. The
// end of a long name is replaced by a hash.
func SitemapStem(name, host, section string) string {
	b := []byte(name + "-")
	if host != "" {
		b = appendHost(b, host)
	}
	if section == "" {
		return string(b)
	}
	if host != "" {
		b = append(b, "__"...)
	}
	return string(shorten(append(b, section...)))
}

// appendHost appends the form of a host in names of files.
func appendHost(b []byte, host string) []byte {
	if address, port, ok := strings.Cut(host, "]"); ok {
		b = append(b, "~~"+strings.ReplaceAll(strings.TrimPrefix(address, "["), ":", "-")...)
		host = port
	}
	name, port, hasPort := strings.Cut(host, ":")
	for _, c := range []byte(name) {
		b = appendByte(b, c, isPlain(c))
	}
	b = shorten(b)
	if hasPort {
		b = append(append(b, '_'), port...)
	}
	return b
}

// appendByte appends a byte as it is, or its number.
func appendByte(b []byte, c byte, plain bool) []byte {
	if plain {
		return append(b, c)
	}
	return fmt.Appendf(b, "~%02x", c)
}

// shorten replaces the end of a long beginning by a hash of the whole.
func shorten(b []byte) []byte {
	if len(b) <= maxStem {
		return b
	}
	h := fnv.New64a()
	h.Write(b)
	return fmt.Appendf(b[:maxStem-18], "~~%016x", h.Sum64())
}

// RootSection is the section of the pages that are in no directory. The section of a directory of this name begins with
// an escaped letter.
const RootSection = "root"

// Section is the first directory of the path of a canonical URL, in the form that SitemapStem needs: "blog" for
// /blog/ and /blog/2026/post, and RootSection for / and /about.
func Section(path string) string {
	dir, _, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !ok || dir == "" {
		return RootSection
	}
	if text, err := url.PathUnescape(dir); err == nil {
		dir = text
	}
	// Temporary names of parts end in five digits or more, and names of the parts of a set in a dot and digits.
	escaped := -1
	if dot := strings.LastIndexByte(dir, '.'); dir == RootSection || len(dir) >= 5 && isNumber(dir) {
		escaped = 0
	} else if dot >= 0 && isNumber(dir[dot+1:]) {
		escaped = dot
	}
	var b []byte
	for i, c := range []byte(dir) {
		b = appendByte(b, c, (isPlain(c) || c == '_') && i != escaped)
	}
	return string(b)
}

// isPlain reports whether a byte of a host name stands for itself in names of files.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-'
}

// IsSitemap reports whether a name is one that an export may give to an XML sitemap. SitemapName says whether it did.
func IsSitemap(name string) bool {
	stem, ok := strings.CutSuffix(strings.TrimSuffix(name, ".gz"), ".xml")
	return ok && stem != "" && stem[0] != '.' && strings.IndexFunc(stem, func(c rune) bool {
		return c > 127 || !isPlain(byte(c)) && c != '_' && c != '~'
	}) < 0
}

// SitemapName returns the name that an export gave to all its sitemaps, and true, if the file is one of them. The
// export wrote into the file which beginnings its name may have, so a copy under another name is not one of them.
// After a beginning, parts and further indexes have a dot and a number. If there is one set, parts have "-" and a
// number of five digits or more.
func SitemapName(file string) (string, bool) {
	head, _ := headOf(file, 16<<10) // which may be more than there is
	label, ok := sitemap.Label(head)
	if !ok {
		return "", false
	}
	stem := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), ".xml")
	begins := strings.Fields(label)
	if len(begins) == 0 {
		return sitemap.DefaultName, isUnlabelled(stem, head)
	}
	if isOfAll(begins[0], stem) {
		return begins[0], true
	}
	for _, begin := range begins[1:] {
		if isNumbered(begin, stem) {
			return begins[0], true
		}
	}
	return "", false
}

// isOfAll reports whether a name, without its suffix, is that of a sitemap of all pages of an export with this name,
// and not of one set of several.
func isOfAll(name, stem string) bool {
	part, ok := strings.CutPrefix(stem, name+"-")
	return ok && len(part) >= 5 && isNumber(part) || isNumbered(name, stem)
}

// isNumbered reports whether a name is a given beginning, perhaps with a dot and a number.
func isNumbered(begin, stem string) bool {
	rest, ok := strings.CutPrefix(stem, begin)
	return ok && begin != "" && (rest == "" || rest[0] == '.' && isNumber(rest[1:]))
}

// isNumber reports whether a text has digits only.
func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// isUnlabelled reports whether a sitemap may have this name, if the export did not write beginnings into it, since the
// name was the default one and the sets were those of hosts. A sitemap of one host of several must be about that host:
// users keep copies of sitemaps under names such as sitemap-old.xml.
func isUnlabelled(stem string, head []byte) bool {
	if isOfAll(sitemap.DefaultName, stem) {
		return true
	}
	_, rest, _ := bytes.Cut(head, []byte("<loc>"))
	loc, _, ok := strings.Cut(string(rest), "</loc>")
	if !ok || !strings.HasPrefix(stem, sitemap.DefaultName+"-") {
		return false
	}
	about := ""
	if bytes.Contains(head, []byte("<sitemapindex ")) { // it names the parts of its host
		about = strings.TrimSuffix(strings.TrimSuffix(path.Base(loc), ".gz"), ".xml")
		about = strings.TrimRight(about, "0123456789")
		about = strings.TrimSuffix(about, ".")
	} else if host, err := url.PathUnescape(strings.NewReplacer("&amp;", "&", "&apos;",
		"'").Replace(hostOf(loc))); err == nil {
		about = SitemapStem(sitemap.DefaultName, host, "")
	}
	return isNumbered(about, stem)
}
