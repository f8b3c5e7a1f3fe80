// Command colly crawls the benchmark's web with gocolly/colly, the crawler that most Go programs use, so that its
// figures are of the same run as ours. It is in a module of its own: peers never enter the crawler's go.mod.
//
//	colly ADDR START
//
// ADDR is where every host name leads to. The last line of its output is a JSON object with crawl_seconds, as the
// harness wants it.
package main
