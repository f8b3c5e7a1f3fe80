package testweb

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// serveEnv, when set, makes the test binary a server with this config: benchmarks
// want its CPU time apart from their own.
const serveEnv = "TESTWEB_SERVE"

func TestMain(m *testing.M) {
	if config := os.Getenv(serveEnv); config != "" {
		if err := serveUntilEOF(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func serveUntilEOF(config string) error {
	cfg, err := ReadConfig(strings.NewReader(config))
	if err != nil {
		return err
	}
	s, err := Start(cfg)
	if err != nil {
		return err
	}
	err = json.NewEncoder(os.Stdout).Encode(map[string]string{"addr": s.Addr(), "admin": s.AdminAddr()})
	if err != nil {
		return err
	}
	io.Copy(io.Discard, os.Stdin)
	return s.Close()
}
