package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command has a manual page, which has every flag that its help shows. No line of a text is a request of roff.
func TestManual(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man", "man1")
	out := &bytes.Buffer{}
	if code := run(t.Context(), []string{"man", dir}, nil, stdio{nil, out, out}); code != exitComplete {
		t.Fatalf("exit status %d: %s", code, out)
	}
	known := map[string]bool{"TH": true, "SH": true, "PP": true, "TP": true, "B": true, "BR": true, "nf": true, "fi": true}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		text, err := os.ReadFile(filepath.Join(dir, manName(cmd)+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		cmd.NonInheritedFlags().VisitAll(func(flag *pflag.Flag) {
			if name := strings.ReplaceAll("--"+flag.Name, "-", `\-`); !flag.Hidden && !bytes.Contains(text, []byte(name)) {
				t.Errorf("the page of %s lacks --%s", cmd.CommandPath(), flag.Name)
			}
		})
		for line := range strings.Lines(string(text)) {
			request, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, ".")), " ")
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !known[request] {
				t.Errorf("%s: %q is a request", cmd.CommandPath(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				check(sub)
			}
		}
	}
	check(newRoot(nil, stdio{nil, out, out}))
	if got := roff(".a\n'b-c\\d"); got != "\\&.a\n\\(aqb\\-c\\ed" {
		t.Errorf("got %q", got)
	}
}
