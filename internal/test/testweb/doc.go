// Package testweb is a synthetic web for tests and benchmarks: many
// hosts behind one loopback listener, every page of them decided by a seed, with
// faults where a test asks for them and statistics that say how a crawler behaved.
//
// # Order of calls
//
// A [Config] says how many hosts and pages there are and which host
// has which [Fault]. [Start] listens and serves until [Server.Close]. A crawler is sent
// to [Server.StartURLs] with [Server.Resolve] as its --resolve value, so that no
// name is ever looked up. When it is done, [Server.Stats] tells what the hosts saw
// and [Server.Expected] what a correct crawl reports; [Compare] compares a
// crawl's result with it. A test that drives another process reads the same things
// as JSON from the admin listener (see [Config.AdminAddr]); cmd/testweb is the server as
// a program.
//
// Inside a testing/synctest bubble, where sockets do not work, start the server
// with [StartOn] and a nil listener and connect with [Server.Dial]: every delay,
// rest and gap is then exact and takes no time.
//
// # What is where
//
// All hosts have the same number of pages, reachable from "/" by a tree with more
// links between its pages. Pages are rendered when asked for and never kept; one graph
// (graph.go) is both rendered into pages and walked for the expectation, so the two
// cannot disagree. A fault either changes how all pages of a host are answered
// (a rate limit, a capacity) or adds leaves: URLs of its own which pages of the
// tree link to, each with its own answer, so that a page that hangs never hides a part
// of the tree. Hosts with the same faults share one plan of leaves; per host and page
// nothing is kept but a bit.
//
// # Generations
//
// With [Config.Changes] the web changes from one generation to the next. It starts with generation 0 and stays there
// until [Server.SetGeneration]. Each page but a host's root is of one kind, decided by the seed, and the kind decides
// what the page is in a generation: its text changes always or sometimes, it vanishes and comes back, redirects, moves,
// gets another title or canonical URL, is not to be indexed, is disallowed by robots.txt, appears, or is named by no
// link and no sitemap any more. Some pages change in nothing but tokens of their markup, or in one number. All of it is
// computed when it is asked for (change.go); nothing is kept for a page.
//
// The fault [Validators] says which of ETag and Last-Modified a host sends and how it answers conditions, rightly or
// wrongly; without it a host sends both and answers rightly. The fault [Down] makes a host fail in some generations.
// [Sitemaps].LastMod makes sitemaps say something false about when pages changed. A page changes when its generation
// begins, which is in 1999 unless [Server.SetGenerationAt] gives a date.
//
// [Server.ExpectedRecrawl] tells what a crawl and its recrawls report in the end: for each URL the change, the
// differences, the right lastmod, and whether the host answers 304. The statistics count conditional requests, 304s and
// bodies of each host.
//
// By hand, with the program:
//
//	testweb --pages 1000 --changes 'sometimes=0.9 rate=0.01 vanish=0.1' --fault 'kind=down generations=[2,3]'
//	curl -X POST 'http://ADMIN/generation?n=1'
//	curl 'http://ADMIN/recrawl?generations=0,1'
//
// # What the statistics can say
//
// Stats are kept by a server, which sees a request a little after the crawler
// started it and has sent the answer a little before the crawler has it. A request
// is in flight from the moment its head was read until just before its last byte is
// written; so the statistics never show more in flight than there was (unless a client gives
// up on a connection and starts anew before the server is told of that), and an answer that a
// client has read in full is always in them. Gaps are between heads read: on a busy
// machine two of them can come closer together than they were sent.
//
// All methods of [Server] may be called from any goroutine. The HTTP server is
// written for this job (conn.go): HTTP/1.1 with keep-alive, GET and HEAD, TLS on the
// same port when asked for. A server from net/http costs half as much again a page,
// and cannot send every reset and truncation.
package testweb
