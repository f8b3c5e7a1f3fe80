// Package cluster tests several machines on one crawl, over a real PostgreSQL server. The tests
// have the build tag cluster.
package cluster
