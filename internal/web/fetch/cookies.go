package fetch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// Cookies are the cookies that requests send. A cookie of File replaces one of the same name in Given.
type Cookies struct {
	// Given go to the origins of To.
	Given []*http.Cookie
	To    Audience
	// File are those of a cookie file, or nil. They go to the hosts and paths that the file says, on the usual port of
	// http and https and on the ports of To.
	File *cookiejar.Jar

	jar *jar // nil if the cookies of answers are not kept
}

// KeepAnswers makes the Client keep the cookies that answers set, and send them as a browser does. They replace others
// of the same name.
func (c *Cookies) KeepAnswers() { c.jar = newJar() }

// errCookie does not repeat the text, which is a secret.
var errCookie = errors.New("it must have the form NAME=VALUE, or several of them as 'A=1; B=2'")

// ParseCookies reads NAME=VALUE; NAME=VALUE.
func ParseCookies(text string) ([]*http.Cookie, error) {
	list, err := http.ParseCookie(text)
	if err != nil || !httpguts.ValidHeaderFieldValue(text) {
		return nil, errCookie
	}
	return list, nil
}

// maxCookieFile bounds a cookie file, in bytes.
const maxCookieFile = 16 << 20

// ReadCookieFile reads a cookie file in the Netscape format, which curl, wget and browser extensions write. Cookies
// that have expired are left out; a file that has no others is refused. The error does not repeat a line, which has
// secrets.
func ReadCookieFile(path string) (*cookiejar.Jar, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	jar := newCookieJar()
	lines := bufio.NewScanner(io.LimitReader(file, maxCookieFile))
	lines.Buffer(nil, 1<<20)
	valid, expired := 0, 0
	for n := 1; lines.Scan(); n++ {
		text, httpOnly := strings.CutPrefix(strings.TrimRight(lines.Text(), "\r"), "#HttpOnly_")
		if strings.TrimSpace(text) == "" || text[0] == '#' && !httpOnly {
			continue
		}
		from, cookie, err := parseNetscape(text)
		if err != nil {
			return nil, fmt.Errorf("%s line %d is not a cookie in the Netscape format: %w", path, n, err)
		}
		if !cookie.Expires.IsZero() && !cookie.Expires.After(time.Now()) {
			expired++
			continue
		}
		valid++
		jar.SetCookies(from, []*http.Cookie{cookie})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if valid == 0 && expired > 0 {
		return nil, fmt.Errorf("all cookies of %s have expired", path)
	}
	if valid == 0 {
		return nil, fmt.Errorf("%s has no cookies", path)
	}
	return jar, nil
}

// parseNetscape reads one line: domain, whether hosts below it get the cookie, path, whether it is for https only, when
// it expires in Unix seconds (0 means never), name and value, with tabs between them. from is a URL that may set it.
func parseNetscape(line string) (from *url.URL, cookie *http.Cookie, err error) {
	f := strings.SplitN(line, "\t", 7)
	if len(f) < 6 {
		return nil, nil, errors.New("it needs seven fields with tabs between them")
	}
	value := ""
	if len(f) == 7 {
		value = f[6]
	}
	host := strings.ToLower(strings.TrimPrefix(f[0], "."))
	if u, err := weburl.Parse("http://" + host); err != nil || u.Host() != host {
		return nil, nil, errors.New("the first field is not a domain")
	}
	cookie = &http.Cookie{Name: f[5], Value: value, Path: f[2], Secure: strings.EqualFold(f[3], "TRUE")}
	if strings.EqualFold(f[1], "TRUE") { // the jar makes one for this host alone of a public suffix or an address
		cookie.Domain = host
	}
	seconds, err := strconv.ParseFloat(f[4], 64)
	if err != nil || math.IsNaN(seconds) {
		return nil, nil, errors.New("the fifth field is not a time")
	}
	if seconds > 0 && seconds < 1<<40 {
		cookie.Expires = time.Unix(int64(seconds), 0)
	}
	if !httpguts.ValidHeaderFieldName(cookie.Name) || !httpguts.ValidHeaderFieldValue(value) {
		return nil, nil, errors.New("the name or the value has characters that a cookie cannot have")
	}
	return &url.URL{Scheme: "https", Host: strings.Trim(host, "[]"), Path: "/"}, cookie, nil
}

// suffixes is the list of public suffixes of package weburl, in the form of cookiejar.
type suffixes struct{}

func (suffixes) PublicSuffix(domain string) string {
	_, suffix, _ := strings.Cut(weburl.RegistrableDomain("x."+domain), ".")
	return suffix
}

func (suffixes) String() string { return "the list of package weburl" }

// newCookieJar makes an empty jar.
func newCookieJar() *cookiejar.Jar {
	jar, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: suffixes{}}) // it never fails
	return jar
}

// netURL is a URL as a jar takes it. The path stays as it is sent. Cookies are for all ports, and a jar would take an
// IPv6 address with a port for another host than the same one in brackets.
func netURL(u weburl.URL) *url.URL {
	return &url.URL{Scheme: u.Scheme(), Host: strings.Trim(u.Host(), "[]"), Path: u.Path()}
}

// header is the value of the header Cookie for a URL; empty if there is none.
func (c *Cookies) header(u weburl.URL) string {
	own := c.To.Has(u)
	var given, file, kept []*http.Cookie
	if own {
		given = c.Given
	}
	if c.File != nil && (own || u.Port() == "") {
		file = c.File.Cookies(netURL(u))
	}
	if c.jar != nil {
		kept = c.jar.cookies(u)
	}
	return joinCookies(given, file, kept)
}

// joinCookies makes a header of lists of cookies. A cookie is left out if a later list has its name. One list may have
// a name several times, such as for several paths: a jar lists the most specific first, and servers take the first.
func joinCookies(lists ...[]*http.Cookie) string {
	var b strings.Builder
	for i, list := range lists {
		for _, ck := range list {
			same := func(other *http.Cookie) bool { return other.Name == ck.Name }
			if slices.ContainsFunc(lists[i+1:], func(later []*http.Cookie) bool {
				return slices.ContainsFunc(later, same)
			}) {
				continue
			}
			if b.Len() > 0 {
				b.WriteString("; ")
			}
			value := ck.Value
			if ck.Quoted {
				value = `"` + value + `"`
			}
			b.WriteString(ck.Name + "=" + value)
		}
	}
	return b.String()
}
