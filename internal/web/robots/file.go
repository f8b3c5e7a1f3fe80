package robots

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf16"
)

// A File is a parsed robots.txt with all its groups. It is immutable.
type File struct {
	groups   []group
	sitemaps []string
}

// A group is a run of User-agent lines and the rules after them.
type group struct {
	agents []agent
	rules  []line // keyAllow and keyDisallow only
}

// An agent is one User-agent line. The delay is a field of the agent and not of the group. A Crawl-delay does not end
// the run of User-agent lines that it stands in, but it is only for the agents above it.
type agent struct {
	token string // "*" for every crawler, as written otherwise
	delay time.Duration
	paced bool // a Crawl-delay was given; it may be zero
}

// Parse reads a file. It accepts any bytes, reads [MaxSize] of them and keeps no
// reference to body.
func Parse(body []byte) *File {
	body = narrow(body)
	if len(body) > MaxSize {
		body = wholeLines(body[:MaxSize])
	}
	var p parser
	for l := range linesOf(string(body)) {
		p.line(l)
	}
	return &p.file
}

// narrow brings a file in UTF-16, which some editors write, to UTF-8. It is recognised by its byte order mark alone.
func narrow(body []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return body
	}
	body = body[2:min(len(body), 2*MaxSize)] // what follows is over the limit in UTF-8 too
	units := make([]uint16, len(body)/2)
	for i := range units {
		units[i] = order.Uint16(body[2*i:])
	}
	return []byte(string(utf16.Decode(units)))
}

// wholeLines leaves out the last line, which the size limit has cut in two.
func wholeLines(body []byte) []byte {
	i := len(body)
	for i > 0 && body[i-1] != '\n' && body[i-1] != '\r' {
		i--
	}
	return body[:i]
}

// Sitemaps returns the values of the Sitemap lines, in order and as written.
func (f *File) Sitemaps() []string { return f.sitemaps }

type parser struct {
	file File
	// ruled is set by the first rule of a group: the next User-agent line opens
	// another group.
	ruled bool
	// paced and from tell which agents of the group a Crawl-delay is for: those
	// from index from on. An agent after a Crawl-delay begins a new run.
	paced bool
	from  int
}

func (p *parser) line(l line) {
	switch l.key {
	case keyUserAgent:
		p.agent(l.value)
	case keyAllow, keyDisallow:
		if g := p.group(); g != nil {
			p.ruled = true
			if canMatch(l.value) {
				g.rules = append(g.rules, l)
			}
		}
	case keySitemap:
		if l.value != "" {
			p.file.sitemaps = append(p.file.sitemaps, l.value)
		}
	case keyCrawlDelay:
		p.delay(l.value)
	}
}

// canMatch reports whether a pattern can match any path. An empty one says
// nothing, and every path begins with a slash.
func canMatch(pattern string) bool {
	return pattern != "" && (pattern[0] == '/' || pattern[0] == '*')
}

func (p *parser) group() *group {
	if len(p.file.groups) == 0 {
		return nil
	}
	return &p.file.groups[len(p.file.groups)-1]
}

func (p *parser) agent(value string) {
	if len(p.file.groups) == 0 || p.ruled {
		p.file.groups = append(p.file.groups, group{})
		p.ruled, p.paced, p.from = false, false, 0
	}
	g := p.group()
	if p.paced {
		p.paced, p.from = false, len(g.agents)
	}
	token := ProductToken(value)
	if value != "" && value[0] == '*' && (len(value) == 1 || trim(value[1:2]) == "") {
		token = "*"
	}
	g.agents = append(g.agents, agent{token: token})
}

func (p *parser) delay(value string) {
	d, ok := parseDelay(value)
	g := p.group()
	if !ok || g == nil {
		return
	}
	p.paced = true
	for i := p.from; i < len(g.agents); i++ {
		g.agents[i].slow(d, true)
	}
}

// slow takes the longer of two delays, so that none is ever shortened.
func (a *agent) slow(d time.Duration, given bool) {
	if given {
		a.delay, a.paced = max(a.delay, d), true
	}
}

// Agent merges the groups that apply to a crawler: those that name its product token, without regard to case, or, if
// there are none, the groups for every crawler.
func (f *File) Agent(token string) *Rules {
	if !validToken(token) {
		token = "*"
	}
	rules, pace, found := f.collect(token)
	if !found && token != "*" {
		rules, pace, found = f.collect("*")
	}
	if !found {
		pace.token = ""
	}
	return compile(pace, rules)
}

func (f *File) collect(token string) (rules []line, pace agent, found bool) {
	for _, g := range f.groups {
		named := false
		for _, a := range g.agents {
			if !strings.EqualFold(a.token, token) {
				continue
			}
			if !found {
				pace.token, found = a.token, true
			}
			pace.slow(a.delay, a.paced)
			named = true
		}
		if named {
			rules = append(rules, g.rules...)
		}
	}
	return rules, pace, found
}
