//go:build unix

package datadir

import (
	"os/exec"
	"strings"
	"testing"
)

// A command in a message means the same directory to a shell, whatever its name is.
func TestCommandsCanBePasted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"data", "./a/b.c", "my site", "it's", `say "hi"`, "$HOME", "a;b", "*", "`x`",
		`back\slash`, "über", "~", "a'b$c", "!"} {
		text := strings.TrimPrefix(Dir(name).Command("resume"), "mapwright ")
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s|' "+text).Output()
		if want := "resume|--data-dir|" + name + "|"; err != nil || string(out) != want {
			t.Errorf("a shell makes %q of %q (%v), want %q", out, text, err, want)
		}
	}
}
