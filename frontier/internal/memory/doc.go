// Package memory has the data structures that hold a frontier's hosts and queued
// URLs: an arena of bytes, a slab of records, a heap and a queue of record indexes.
// They hold few pointers, so that the garbage collector has little to look at, and
// they know nothing of hosts and URLs. None may be used by two goroutines at once.
package memory
