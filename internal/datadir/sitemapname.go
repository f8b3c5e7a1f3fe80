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

// maxStem bounds the name of a host in names of files, which may have 255 bytes with all that is added to it.
const maxStem = 200

// SitemapStem begins the names of the sitemaps of a host: "sitemap-" and the host. Different hosts have different ones,
// also where names of files are compared without case. No host is called like a part of the sitemaps of another, since
// the last label of a host name is not a number.
//
// The port follows after "_". An IPv6 address follows after "~~", with "-" for each colon. Other bytes than lower-case
// letters, digits, dots and hyphens are "~" and two digits in hexadecimal. The end of a long name is replaced by a
// hash.
func SitemapStem(host string) string {
	b := []byte("sitemap-")
	if address, port, ok := strings.Cut(host, "]"); ok {
		b = append(b, "~~"+strings.ReplaceAll(strings.TrimPrefix(address, "["), ":", "-")...)
		host = port
	}
	name, port, hasPort := strings.Cut(host, ":")
	for _, c := range []byte(name) {
		if isPlain(c) {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "~%02x", c)
		}
	}
	if len(b) > maxStem {
		h := fnv.New64a()
		h.Write(b)
		b = fmt.Appendf(b[:maxStem-18], "~~%016x", h.Sum64())
	}
	if hasPort {
		b = append(append(b, '_'), port...)
	}
	return string(b)
}

// isPlain reports whether a byte of a host name stands for itself in names of files.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-'
}

// IsSitemap reports whether a name is one that an export gives to XML sitemaps: sitemap.xml and further indexes,
// sitemap.2.xml; parts, sitemap-00001.xml; those of a host of several, sitemap-HOST.xml and its parts,
// sitemap-HOST.00001.xml; each also with .gz.
func IsSitemap(name string) bool {
	stem, ok := strings.CutSuffix(strings.TrimSuffix(name, ".gz"), ".xml")
	if !ok {
		return false
	}
	if isOfAll(stem) {
		return true
	}
	host, ok := strings.CutPrefix(stem, "sitemap-")
	return ok && host != "" && strings.IndexFunc(host, func(c rune) bool {
		return c > 127 || !isPlain(byte(c)) &&
			c != '_' && c != '~'
	}) < 0
}

// isOfAll reports whether a name, without its suffix, is that of a sitemap of all hosts of an export, and not of one
// host of several.
func isOfAll(stem string) bool {
	if part, ok := strings.CutPrefix(stem, "sitemap-"); ok {
		return len(part) >= 5 && isNumber(part)
	}
	rest, ok := strings.CutPrefix(stem, "sitemap")
	return ok && (rest == "" || rest[0] == '.' && isNumber(rest[1:]))
}

// isNumber reports whether a text has digits only.
func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// isOurs reports whether a sitemap begins as those of an export do. What cannot be read does not. A sitemap of one
// host of several must be about that host: users keep copies of sitemaps under names such as sitemap-old.xml.
func isOurs(file string) bool {
	stem := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), ".xml")
	if isOfAll(stem) {
		head, err := headOf(file, sitemap.HeadLen)
		return err == nil && sitemap.IsOurs(head)
	}
	head, _ := headOf(file, sitemap.HeadLen+16<<10) // which may be more than there is
	if !sitemap.IsOurs(head) {
		return false
	}
	_, rest, _ := bytes.Cut(head, []byte("<loc>"))
	loc, _, ok := strings.Cut(string(rest), "</loc>")
	if !ok {
		return false
	}
	about := ""
	if bytes.Contains(head, []byte("<sitemapindex ")) { // it names the parts of its host
		about = strings.TrimSuffix(strings.TrimSuffix(path.Base(loc), ".gz"), ".xml")
		about = strings.TrimRight(about, "0123456789")
		about = strings.TrimSuffix(about, ".")
	} else if host, err := url.PathUnescape(strings.NewReplacer("&amp;", "&", "&apos;",
		"'").Replace(hostOf(loc))); err == nil {
		about = SitemapStem(host)
	}
	number, ok := strings.CutPrefix(stem, about)
	return ok && about != "" && (number == "" || number[0] == '.' && isNumber(number[1:]))
}
