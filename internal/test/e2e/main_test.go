package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	crashes = flag.Int("crashes", 4,
		"how often each TestCrash kills the program; TestCrashDifficultSites at least 12 times")
	crashSeed = flag.Uint64("crash-seed", 0, "what TestCrash chooses by; 0 means by chance")
	soak      = flag.Duration("soak", 2*time.Second, "how long TestSoak crawls")
)

// binary is the program under test. TestMain sets it.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "mapwright-e2e-")
	if err == nil {
		binary = filepath.Join(dir, "mapwright")
		err = errors.Join(build(), beParallel())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}

func build() error {
	args := []string{"build", "-o", binary}
	if raceDetector {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "github.com/mapwright/mapwright/cmd/mapwright")...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the program: %w", err)
	}
	return nil
}

// beParallel lets more tests run at once than there are CPUs, since most of them wait most of the time.
func beParallel() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", "6")
}
