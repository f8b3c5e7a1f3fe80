package page

// Checked is what a check found at a URL, which may be outside of the crawl.
type Checked struct {
	Outcome    Outcome
	StatusCode int    // 0 if there was no answer
	Size       int64  // of the body in bytes, as a Content-Length says; -1 if it is not known
	IsImage    bool   // it is of a type such as image/png
	IsExcluded bool   // it was not asked for though its host has not failed: that is denied, or wants to be left alone
	RedirectTo string // where redirects lead in the end; empty if there are none. The other fields are of that URL
}

// IsBroken reports whether a link to the URL leads nowhere.
func (c *Checked) IsBroken() bool {
	switch c.Outcome {
	case DNSError, ConnectError, TLSError, Timeout, ReadError, RedirectLoop:
		return true
	case HostBlocked:
		return !c.IsExcluded
	case HTTPError:
		return !c.isRefused()
	}
	return false
}

// IsUnknown reports whether it is not known if a link to the URL works: the server refuses a crawler, or was not asked.
func (c *Checked) IsUnknown() bool {
	switch c.Outcome {
	case OK, Redirect:
		return false
	}
	return !c.IsBroken()
}

// isRefused reports whether the status says that the one who asks gets no answer. 999 is what some sites answer to
// programs.
func (c *Checked) isRefused() bool {
	switch c.StatusCode {
	case 401, 402, 403, 407, 429, 451, 999:
		return true
	}
	return false
}
