// Package fetch makes one bounded, guarded HTTP GET or HEAD at a time, and the POST of a form for a login.
//
// A [Client] is made once with its [Options] and shared by all workers. A worker
// calls [Client.Do] with a [Request] and gets a [Response], which it must close,
// an [*Error], or both: a body that is too large or breaks off comes with the
// headers that went before it. Nothing is retried and no redirect is followed,
// because these are decisions of the crawl.
//
// # Credentials
//
// Private headers, users and passwords, cookies and the client certificate are bound to origins, see [Options]. Users
// and cookies are headers whose value depends on the URL of a request, so each request has those of its own URL alone.
// Cookies of answers are kept only if [Cookies.KeepAnswers] was called, in bounded memory.
//
// # Several crawls
//
// [Client.For] makes a Client with other permissions, headers, credentials, resolve rules, proxy or TLS settings, which
// shares the sockets, the memory and their limits. Each Client has its own connections, over HTTP/1 and HTTP/2, its own
// TLS sessions and its own cache of DNS, so one Client never uses what another may reach or sends.
//
// # Round trips
//
// A request over HTTP/1 to a host is made by internal/web/http1, in the goroutine that calls Do. Nothing is sent
// twice. If a kept connection fails before the first byte of an answer, the error has Dropped set. The crawl decides
// whether to send the request again, because it knows the host's pace. What net/http would send again by itself is
// prevented.
//
// The [Wire] of a request is told the address before a connection to it is made, and asked before the request's first
// byte, when the connection is there. If it refuses, nothing is sent, the connection is kept where that is possible,
// and the error is of the kind [Canceled].
//
// HTTP/2 and the POST of a form are left to http.Transport. Whether an https
// origin speaks HTTP/2 shows in the handshake; its connection is then handed over,
// and the origin's further requests go there directly.
//
// A proxy is a matter of connecting: the dialer asks it for a tunnel, and what goes through it is as without a proxy,
// with the same bounds. Only requests for http URLs by an HTTP proxy are different: they go to the proxy, by
// http.Transport.
//
// # Archives
//
// With Options.Archive each request and its answer are given to the [Archive] before Do returns, or before a Stream
// returns its last bytes. Bodies that the caller does not need are read for it too, within the same limits.
//
// # Bounds
//
// Everything that a host could make large is limited: headers, certificates, what is sent beside answers over TLS, the
// body after decompression and in every layer of it, what a stream expands to, the time of each phase and of the whole,
// and how slowly a body may come. Large bodies and the windows of decoders share one budget of memory
// (Options.MaxMemory) and wait for one another. No account can take so much of it that another has none. Every
// decoder looks at the end of its call each time that it reads. The process's limit of open files bounds the number
// of connections kept alive, whatever the number of hosts. The least recently used is closed first. If there are too
// many connections of HTTP/2, all of them that are idle are closed.
//
// # The address guard
//
// Addresses that are not public (see [NotPublic]) are refused at the moment of
// connecting, when names have become addresses and nothing can change any more.
// That holds for every request there is, robots.txt and sitemaps included. An
// address passes if Options.AllowPrivate is set, if the host is one of
// Options.AllowHosts, or if the user named it with [Resolve].
//
// Behind a proxy the guard sees less. The proxy itself was named by the user and is not judged. The target is judged
// when the URL holds an address or a name for this machine. Other names are looked up by the proxy, and the guard does
// not see their addresses.
//
// # Errors
//
// [Error.Kind] is one of the outcomes that a crawl records. [Error.Ours] tells the
// failures of this machine from those of hosts: no file descriptors or memory, no
// route to IPv4 addresses, no DNS server that answers anything, a proxy that does
// not accept the connection. Failures that can be of either kind count as the host's, since a
// crawl that pauses for each of them might never end.
//
// # Names
//
// DNS answers are kept for a fixed time, because Go's resolver does not tell how
// long they are good for; an answer none of whose addresses takes a connection is
// forgotten at once.
package fetch
