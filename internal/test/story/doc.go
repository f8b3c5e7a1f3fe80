// Package story has tests that use the service as its users do: through the built program, its HTTP API and its
// commands. It has no code of its own.
//
// With the build tag service it also puts a real nginx before the server, and runs the commands of docs/service.md.
package story
