package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release of this tree; with the suffix -dev, the next release. The build may set it with -ldflags.
var version = "0.1.0-dev"

func newVersion(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{Use: "version", Short: "Say which version this is", Args: noArguments})
	c.addJSON("print one JSON object")
	return c.does(func([]string) error {
		if c.asJSON {
			return json.NewEncoder(c.out).Encode(struct {
				Version string `json:"version"`
				Commit  string `json:"commit,omitempty"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH})
		}
		_, err := fmt.Fprint(c.out, versionLine())
		return err
	})
}

// versionLine is what version and --version print.
func versionLine() string {
	return fmt.Sprintf("mapwright %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit is the revision that the binary was built from, where the build recorded it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
