//go:build race

package e2e

// The program is built as the tests are.
const RaceDetector = true
