package state

import (
	"fmt"
	"os"
)

// childEnv names what a child process of the tests does instead of testing.
const childEnv = "STATE_TEST_CHILD"

func runChild(name string) {
	fmt.Fprintln(os.Stderr, "unknown child", name)
	os.Exit(1)
}
