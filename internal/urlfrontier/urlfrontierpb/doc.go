// Package urlfrontierpb is the interface description of URLFrontier, and the Go code that is generated from it.
//
// urlfrontier.proto is the file of crawler-commons (https://github.com/crawler-commons/url-frontier, version 2.6, Apache
// License 2.0, see LICENSE beside it), unchanged. 'make proto' writes the code again.
package urlfrontierpb

//go:generate go run -tags generate generate.go
