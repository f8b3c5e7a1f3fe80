package page

import "time"

// Facts are what a fetch and a parse found of one URL. Zero means not known, except where a field says otherwise.
type Facts struct {
	Error         string // why it failed, for people
	RedirectTo    string
	ContentType   string
	ContentLength int64 // bytes of the decoded body, or what the server said of a body that was not read; -1 if unknown
	ContentHash   uint64
	HasHash       bool
	ResponseTime  time.Duration // to the last byte of the body; -1 if there was no response

	Title       string
	Description string
	H1          string
	Canonical   string
	Language    string
	Hreflang    []Alternate
	RobotsMeta  string
	NoIndex     bool
	JSONLDTypes []string
	OpenGraph   []Property
	WordCount   int
	LinkCount   int
	Parsed      bool // the page was read: WordCount and LinkCount are facts even when zero

	LastModified time.Time // as the server or the page said
	ETag         string

	Robots    Robots
	Extracted []Property // in the order of the selectors; a name may repeat
	Images    []string
	Links     []Link // every link of the page, when asked for
	Trap      string // which trap, for the outcome Trap
}

// Alternate is one hreflang link.
type Alternate struct{ Lang, URL string }

// Property is a name and a value.
type Property struct{ Name, Value string }

// Link is one edge of the link graph.
type Link struct {
	To, Rel, Text string
	NoFollow      bool
}

// Robots is the evidence for what robots.txt says of a URL.
type Robots struct {
	Checked    bool
	Allowed    bool
	Rule       string // as written in the file; empty if none matched
	CrawlDelay time.Duration
	Low        bool // robots.txt could not be fetched
	CheckedAt  time.Time
}
