package problems

// Code is the number of a problem. The page index stores sets of codes as bits: append, never renumber.
type Code uint8

// The codes.
const (
	BrokenLink Code = iota
	ServerError
	RedirectLoop
	RedirectChain
	LinkToRedirect
	SitemapNotOK
	SitemapNotIndexable
	NotInSitemap
	Orphan
	CanonicalBad
	HreflangNoReturn
	TitleMissing
	TitleDuplicate
	TitleLong
	DescriptionMissing
	DescriptionDuplicate
	DescriptionLong
	H1Missing
	H1Several
	DuplicateExact
	DuplicateNear
	MixedContent
	Slow
	Large
	Thin
	SoftNotFound
	BrokenExternal
	ExternalUnchecked
	BrokenFragment
	BrokenAsset
	LargeAsset
	numCodes
)

// Definition is what is known of a problem before any crawl.
type Definition struct {
	Code     Code
	Name     string // in files and messages
	Title    string // for people
	Severity string
	Explain  string // two sentences: what it is, and why it matters
	Fix      string
	Rule     string // which URLs are counted, exactly
	Value    string // what the value of an item is; empty if there is none
	Related  string // what the related URLs of an item are; empty if there are none
}

// String is the name of the code.
func (c Code) String() string {
	if d, ok := c.Definition(); ok {
		return d.Name
	}
	return "unknown"
}

// Definition is the entry of the code in the table.
func (c Code) Definition() (Definition, bool) {
	for _, d := range Table() {
		if d.Code == c {
			return d, true
		}
	}
	return Definition{}, false
}

// IsOutside reports whether the URLs that have the problem are not pages of the crawl: they are of other sites, have a
// fragment, or are files. The pages that are marked with it are those that link to them.
func (c Code) IsOutside() bool { return c >= BrokenExternal && c <= LargeAsset }

// Parse finds a code by its name.
func Parse(name string) (Code, bool) {
	for _, d := range Table() {
		if d.Name == name {
			return d.Code, true
		}
	}
	return 0, false
}

// Limits of the definitions. Lengths of texts are code points after collapsing white space.
const (
	MaxTitle       = 60
	MaxDescription = 160
	MaxSeconds     = 3
	MaxBytes       = 2 << 20
	ThinWords      = 100
	ExactWords     = 20  // pages with fewer words are not compared
	NearWords      = 100 // likewise
	NearDistance   = 3   // of 64 bits
	MaxImage       = 500 << 10
	MaxFile        = 10 << 20
)

// Table are all problems, in the order in which they are shown. In rules, P is a page with outcome ok, status 200, of
// type HTML, that was read; I is an indexable P.
func Table() []Definition {
	return []Definition{
		{BrokenLink, "broken_link", "Broken links", Error,
			"Pages link to these URLs, and there is nothing: the server says that the page does not exist, or there " +
				"is no server. Readers end at an error, and search engines stop following the link.",
			"Correct the link on the pages that have it, or remove it. If the page has moved, redirect the old URL " +
				"to the new one.",
			"URLs that a page links to, whose last answer was a 4xx status other than 401, 403, 407, 429 and 451, or " +
				"that ended with a DNS, connect or TLS error",
			"status code, or outcome", "pages that link to it"},
		{ServerError, "server_error", "Server errors", Error,
			"The server failed to deliver these URLs, and failed again when they were requested again. Search " +
				"engines crawl a site with many such errors less, and drop pages that fail for long.",
			"Look for the URL in the server's log at the time of the crawl. If many pages fail together, the server " +
				"is overloaded, or a part of it is down.",
			"URLs that ended with a 5xx status, a timeout or a read error after all attempts",
			"status code, or outcome", ""},
		{RedirectLoop, "redirect_loop", "Redirect loops", Error,
			"These URLs redirect to each other without end. No reader and no search engine ever reaches a page.",
			"Change one of the redirects so that it leads to the page that is meant.",
			"URLs with outcome redirect_loop", "", "the hops, from the first target on"},
		{RedirectChain, "redirect_chain", "Redirect chains", Warning,
			"These URLs redirect to a URL that redirects again. Each hop costs readers time, and search engines give " +
				"up after a few.",
			"Redirect the first URL directly to the last one.",
			"redirects that need two hops or more to their end, and to which no other redirect leads", "number of hops",
			"the hops, from the first target on"},
		{LinkToRedirect, "link_to_redirect", "Links to redirects", Notice,
			"Pages link to these URLs, which have moved permanently. Every reader who follows such a link makes a " +
				"request for nothing.",
			"Let the links point to where the redirect leads.",
			"URLs that a page links to, with status 301 or 308", "where it redirects to", "pages that link to it"},
		{SitemapNotOK, "sitemap_not_ok", "Sitemap lists URLs that fail or redirect", Error,
			"The site's own sitemaps list these URLs, but they do not answer with a page. Search engines trust a " +
				"sitemap less the more of its entries are wrong.",
			"Remove the URLs from the sitemap, or list the URLs to which they redirect.",
			"URLs that a sitemap lists, that were requested and did not answer with status 200, other than by 429",
			"status code, or outcome", ""},
		{SitemapNotIndexable, "sitemap_not_indexable", "Sitemap lists pages that may not be indexed", Warning,
			"The site's own sitemaps list these URLs, but the pages themselves, or robots.txt, say that they should " +
				"not be indexed. Search engines get two answers to one question.",
			"Remove the URLs from the sitemap, or remove what forbids indexing: noindex, the rule of robots.txt, or " +
				"the other canonical address.",
			"URLs that a sitemap lists, and that are noindex, blocked by robots.txt or name another canonical address",
			"noindex, robots or canonical", "the canonical address, if that is the reason"},
		{NotInSitemap, "not_in_sitemap", "Pages missing from the sitemaps", Notice,
			"These pages may be indexed, but no sitemap of their host lists them. Search engines find them later, or " +
				"not at all.",
			"Add the pages to the sitemap, or mark them noindex if they should not be found.",
			"I, no sitemap lists it, and all sitemaps of its host were read", "", ""},
		{Orphan, "orphan", "Orphaned pages", Warning,
			"No other page links to these pages. Readers cannot reach them, and search engines take them for " +
				"unimportant.",
			"Link to the pages from where readers would look for them, or remove them.",
			"I, other than start pages, to which no other page has a link that is followed", "", ""},
		{CanonicalBad, "canonical_bad", "Canonical address is not a page to index", Error,
			"These pages name another URL as their canonical address, and that URL is not a page that may be " +
				"indexed. Search engines then ignore the statement, or index neither.",
			"Name the URL of a page that answers with status 200, may be indexed and is its own canonical address.",
			"P that names a canonical address other than its own, and that was crawled and is not I",
			"why the target may not be indexed", "the canonical address"},
		{HreflangNoReturn, "hreflang_no_return", "Language versions without a return link", Warning,
			"These pages name versions in other languages that do not name them in return. Search engines ignore " +
				"hreflang statements that are not mutual.",
			"Add the missing hreflang links to the other versions. Every version should name all versions.",
			"P that names another P as a language version, which does not name it", "",
			"the versions that do not name it"},
		{TitleMissing, "title_missing", "Pages without a title", Error,
			"These pages have no title, or an empty one. Search results, tabs and bookmarks show the title first.",
			"Give each page a title that says what is on it.",
			"I without a title, or with white space only", "", ""},
		{TitleDuplicate, "title_duplicate", "Pages with the same title", Warning,
			"These pages have the same title as others of the same host. In search results and tabs nobody can tell " +
				"them apart.",
			"Give each page a title of its own, or let pages that are the same name one canonical address.",
			"I whose title equals that of another I of the same host", "the title", "other pages with it"},
		{TitleLong, "title_long", "Titles that are cut off", Notice,
			"The titles of these pages are longer than search results show. What stands at the end is not seen.",
			"Shorten the title to 60 characters, or put what matters first.",
			"I with a title of more than 60 characters", "number of characters", ""},
		{DescriptionMissing, "description_missing", "Pages without a description", Notice,
			"These pages have no meta description. Search results then show a piece of the page that a program chose.",
			"Write one or two sentences on what the page offers into its meta description.",
			"I without a meta description, or with white space only", "", ""},
		{DescriptionDuplicate, "description_duplicate", "Pages with the same description", Notice,
			"These pages have the same meta description as others of the same host. It says nothing about the single " +
				"page, so that search engines ignore it.",
			"Write a description for each page, or leave it out where there is nothing to say.",
			"I whose description equals that of another I of the same host", "the description", "other pages with it"},
		{DescriptionLong, "description_long", "Descriptions that are cut off", Notice,
			"The meta descriptions of these pages are longer than search results show. What stands at the end is not " +
				"seen.",
			"Shorten the description to 160 characters, or put what matters first.",
			"I with a description of more than 160 characters", "number of characters", ""},
		{H1Missing, "h1_missing", "Pages without a main heading", Notice,
			"These pages have no h1 heading with text. Readers, screen readers and search engines look there first " +
				"for what a page is about.",
			"Give the page one h1 heading that names its subject. An image as a heading needs an alternative text " +
				"and text beside it.",
			"P without an h1 element that has text", "", ""},
		{H1Several, "h1_several", "Pages with several main headings", Notice,
			"These pages have more than one h1 heading with text. It is then unclear which of them names the subject " +
				"of the page.",
			"Keep one h1 and make the others h2.",
			"P with two or more h1 elements that have text", "number of headings", ""},
		{DuplicateExact, "duplicate_exact", "Pages with the same text", Warning,
			"These pages have exactly the same text as others. Search engines show one of them, and not always the " +
				"one that is meant.",
			"Redirect all to one URL, or let all name the same canonical address.",
			"I with 20 words or more whose text hash equals that of another such page", "the text hash",
			"other pages with the same text"},
		{DuplicateNear, "duplicate_near", "Pages with almost the same text", Notice,
			"The texts of these pages differ only in a few words from those of others. Search engines may take them " +
				"for copies.",
			"Merge the pages, or give each a text of its own.",
			"I with 100 words or more whose simhash differs in at most 3 of 64 bits from that of another such page " +
				"with another text", "the simhash", "some of these pages"},
		{MixedContent, "mixed_content", "Mixed content", Warning,
			"These pages are served over https and load scripts, styles, frames or images over http. Browsers block " +
				"such content or warn of it.",
			"Load everything over https.",
			"P with an https URL that loads a script, style sheet, frame or image by an http URL", "",
			"the first 10 of these addresses"},
		{Slow, "slow", "Slow pages", Notice,
			"These pages took longer than three seconds to load. Readers leave, and search engines crawl a slow site " +
				"less.",
			"Find out what the server does in that time: look at its database queries, at caching, and at the load " +
				"during the crawl.",
			"P whose response took more than 3 seconds", "milliseconds", ""},
		{Large, "large", "Large pages", Notice,
			"The HTML of these pages alone is larger than 2 MiB. It loads slowly on mobile connections, and search " +
				"engines read only the first part of a large page.",
			"Divide the page, or move data and scripts out of the HTML.",
			"P of more than 2 MiB after decompression, and HTML pages with outcome too_large", "bytes", ""},
		{Thin, "thin", "Pages with little text", Notice,
			"These pages have fewer than 100 words. Search engines find little in them to show for a question.",
			"Add what readers look for on such a page, merge it with another, or mark it noindex.",
			"I with fewer than 100 words", "number of words", ""},
		{SoftNotFound, "soft_404", "Missing pages that answer with status 200", Warning,
			"These pages have the same text as the server's answer to a URL that does not exist, but the status is " +
				"200. Search engines index the error page many times.",
			"Let the server answer with status 404 or 410 for what does not exist.",
			"P whose text equals that of the answer of its host to a random path, which had status 200",
			"the text hash", ""},
		{BrokenExternal, "broken_external", "Broken links to other sites", Error,
			"Pages link to these URLs of other sites, and there is nothing: the page or the site is gone, or fails. " +
				"Readers end at an error, and trust the page less that sent them there.",
			"Correct the link on the pages that have it, or remove it.",
			"URLs out of scope that a page links to, or a URL of the crawl redirects to, whose check ended, after " +
				"redirects, with a 4xx or 5xx status other than 401, 402, 403, 407, 429, 451 and 999, with a DNS, " +
				"connect, TLS or read error, a timeout, a redirect loop, or on a host that failed too often",
			"status code, or outcome", "pages that link to it"},
		{ExternalUnchecked, "external_unchecked", "Links to other sites that could not be checked", Notice,
			"Pages link to these URLs of other sites, which refuse to answer a crawler or were not asked. Whether " +
				"the links work is not known.",
			"Open the links in a browser.",
			"URLs out of scope that a page links to, or a URL of the crawl redirects to, whose check ended, after " +
				"redirects, with the status 401, 402, 403, 407, 429, 451 or 999, was not allowed by robots.txt or " +
				"the settings, or was not made, also because the host asks for more than a day without requests",
			"status code, or outcome", "pages that link to it"},
		{BrokenFragment, "broken_fragment", "Links to parts of pages that do not exist", Warning,
			"Pages link to a part of these pages, and no element there has its name. Readers arrive at the top of " +
				"the page and have to look for the part themselves.",
			"Correct the name after the # in the link, or give the element that is meant this id.",
			"URLs with a fragment that a page links to, whose page is P and has no element with this id and no a " +
				"element with this name",
			"", "pages that link to it"},
		{BrokenAsset, "broken_asset", "Broken images and files", Error,
			"Pages load these images, scripts, style sheets or other files, or link to them as documents, and there " +
				"is nothing. Readers see a gap, a page without its layout, or an error.",
			"Put the file where the pages expect it, or correct its address in the pages.",
			"files that a page loads, or links to and --skip-extensions leaves out, whose check ended as that of a " +
				"broken_external", "status code, or outcome", "pages that use it"},
		{LargeAsset, "large_asset", "Large images and files", Warning,
			"These images have more than 500 KiB, or these other files more than 10 MiB. Pages with them load " +
				"slowly, most of all on mobile connections.",
			"Save images in the size in which they are shown, and in a format such as WebP or AVIF. Compress other " +
				"files, or load them only on demand.",
			"files that a page loads, or links to and --skip-extensions leaves out, whose Content-Length is more " +
				"than 500 KiB for an image and 10 MiB for others", "bytes", "pages that use it"},
	}
}
