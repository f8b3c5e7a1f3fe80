// Package datadir names the files of a crawl's data directory, says whether a crawl may be made there, and reads and
// writes its plan.
package datadir
