// Package reporthtml makes report.html: one page that shows a report to people who were not there. It is a pure
// function of report.json, contains everything that it shows, and makes no request. Tables are cut, so that its size is
// bounded whatever the size of the crawl.
package reporthtml
