package story

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// program is the program under test. TestMain sets it.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mapwright-story-")
	if err == nil {
		program = filepath.Join(dir, "mapwright")
		build := exec.Command("go", "build", "-o", program, "github.com/mapwright/mapwright/cmd/mapwright")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}
