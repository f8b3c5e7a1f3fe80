package e2e

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"
	"go.uber.org/goleak"
)

// How the tests that kill the program do it.
var (
	Crashes = flag.Int("crashes", 4,
		"how often each TestCrash kills the program; TestCrashDifficultSites at least 12 times")
	CrashSeed = flag.Uint64("crash-seed", 0, "what TestCrash chooses by; 0 means by chance")
)

// Binary is the program under test. Main sets it.
var Binary string

// Main builds the program, runs the tests of a package, and fails if they leave a goroutine behind. Call it from
// TestMain.
func Main(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "mapwright-e2e-")
	if err == nil {
		Binary = filepath.Join(dir, "mapwright")
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

// build makes Binary. All packages of tests share one build in the directory of Go's build cache, which go build leaves
// alone while it is up to date. Binary is a link to it, so that a later build does not change it under these tests.
func build() error {
	root, err := goEnv("GOMOD")
	if err != nil {
		return err
	}
	cache, err := goEnv("GOCACHE")
	if err != nil {
		return err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(root))
	dir := filepath.Join(cache, "mapwright-e2e")
	shared := filepath.Join(dir, fmt.Sprintf("%x", h.Sum64()))
	args := []string{"build", "-pgo=off"} // with the profile every package is compiled once more
	if RaceDetector {
		args, shared = append(args, "-race"), shared+"-race"
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock := flock.New(shared + ".lock")
	if err := lock.Lock(); err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }()
	cmd := exec.Command("go", append(args, "-o", shared, "github.com/mapwright/mapwright/cmd/mapwright")...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the program: %w", err)
	}
	if os.Link(shared, Binary) == nil {
		return nil
	}
	program, err := os.ReadFile(shared) // another file system
	if err != nil {
		return err
	}
	return os.WriteFile(Binary, program, 0o700)
}

func goEnv(name string) (string, error) {
	out, err := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(out)), err
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
