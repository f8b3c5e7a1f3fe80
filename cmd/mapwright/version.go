package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// nextVersion is the version of a build that has no other: of a checkout between two releases.
const nextVersion = "0.1.0-dev"

// linkedVersion is set by builds that have no build information, such as those of distributions, with
// -ldflags '-X main.linkedVersion=1.2.3'.
var linkedVersion string

// version is the version of this program. It does not change.
var version = cmp.Or(linkedVersion, moduleVersion(debug.ReadBuildInfo()))

// moduleVersion returns the version that the go command recorded: the tag of a checkout, or the one that go install was
// given. A checkout without any tag has nextVersion.
func moduleVersion(info *debug.BuildInfo, ok bool) string {
	if !ok || !strings.HasPrefix(info.Main.Version, "v") || strings.HasPrefix(info.Main.Version, "v0.0.0-") {
		return nextVersion
	}
	return info.Main.Version[1:]
}

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
			}{version, commit(debug.ReadBuildInfo()), runtime.Version(), runtime.GOOS, runtime.GOARCH})
		}
		_, err := fmt.Fprint(c.out, versionLine())
		return err
	})
}

// versionLine is what version and --version print.
func versionLine() string {
	return fmt.Sprintf("mapwright %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit is the revision that the binary was built from, where the build recorded it. A build of a module without a
// checkout has the beginning of the revision in its pseudo-version.
func commit(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	if parts := strings.Split(info.Main.Version, "-"); len(parts) > 2 && len(parts[len(parts)-1]) == 12 {
		return parts[len(parts)-1]
	}
	return ""
}
