package parser

// A Link is a reference from the page to something else.
type Link struct {
	// Href is the address as written, character references decoded.
	Href string
	// URL is the address in canonical form, or zero; then Fault says why.
	URL URL
	// Rel is the link's relation in lower case, its tokens separated by one
	// space. Links found in scripts have "json-ld" or "next-data".
	Rel string
	// Text is the link's text, or an image's alternative text: white space
	// collapsed, at most 512 bytes.
	Text string
	// Kind is where the link was found.
	Kind Kind
	// Fault says why there is no URL.
	Fault Fault
	// NoFollow tells that Rel has the token nofollow. What the page says for
	// all its links is Page.NoFollow.
	NoFollow bool
}

// A Kind is where a link was found.
type Kind uint8

// The kinds of links.
const (
	KindA       Kind = iota // an a element
	KindArea                // an area element
	KindLink                // a link element, or structured data
	KindIframe              // an iframe element
	KindFrame               // a frame element
	KindRefresh             // a meta refresh
	KindHeader              // a Link or Location header field
	KindImage               // an img element
	KindAsset               // a file that the page loads: image, sound, film, script, style sheet, icon
)

// String returns the kind's name in records.
func (k Kind) String() string {
	switch k {
	case KindA:
		return "a"
	case KindArea:
		return "area"
	case KindLink:
		return "link"
	case KindIframe:
		return "iframe"
	case KindFrame:
		return "frame"
	case KindRefresh:
		return "refresh"
	case KindHeader:
		return "header"
	case KindImage:
		return "image"
	case KindAsset:
		return "asset"
	}
	return "unknown"
}

// A Fault is a reason for which a link has no URL.
type Fault uint8

// The faults of links.
const (
	FaultNone    Fault = iota
	FaultScheme        // neither http nor https
	FaultInvalid       // not a URL, or relative to nothing
	FaultTooLong       // over 8,192 bytes (Href is cut there), or it would exceed MaxLinkBytes
)

// String returns the fault's name in records.
func (f Fault) String() string {
	switch f {
	case FaultNone:
		return ""
	case FaultScheme:
		return "scheme"
	case FaultInvalid:
		return "invalid"
	case FaultTooLong:
		return "too_long"
	}
	return "unknown"
}

// Bounds of one link, in bytes.
const (
	maxHref = 8192
	maxRel  = 256
	maxText = 512
)
