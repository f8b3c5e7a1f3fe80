package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/words"
)

func newMan(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages of all commands",
		Long: "Write the manual pages of all commands into a directory, which is made if it does not exist: " +
			"mapwright.1, " +
			"mapwright-crawl.1 and so on. They have the text of --help.",
		Example: `  mapwright man ~/.local/share/man/man1
  man mapwright-crawl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usage("man takes one directory, such as ~/.local/share/man/man1")
			}
			return nil
		},
	})
	return c.does(func(args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return refusal(err)
		}
		n, err := writeManual(c.Root(), args[0])
		if err != nil {
			return &exitError{exitFailed, err}
		}
		_, err = fmt.Fprintf(c.out, "%s in %s\n", words.Count(int64(n), "manual page"), args[0])
		return err
	})
}

// writeManual writes the page of a command and those of the commands below it. It returns their number.
func writeManual(cmd *cobra.Command, dir string) (pages int, err error) {
	name := filepath.Join(dir, manName(cmd)+".1")
	if err := os.WriteFile(name, []byte(manPage(cmd)), 0o644); err != nil {
		return 0, err
	}
	pages = 1
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "help" {
			continue
		}
		n, err := writeManual(sub, dir)
		if err != nil {
			return 0, err
		}
		pages += n
	}
	return pages, nil
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the manual page of a command, in the macros of man(7).
func manPage(cmd *cobra.Command) string {
	b := &strings.Builder{}
	text := func(s string) { fmt.Fprintln(b, roff(s)) }
	section := func(name string) { fmt.Fprintf(b, ".SH %s\n", roff(strings.ToUpper(name))) }
	fmt.Fprintf(b, ".TH %s 1 \"\" \"mapwright %s\"\n", roff(strings.ToUpper(manName(cmd))), roff(version))
	section("name")
	fmt.Fprintf(b, "%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	section("synopsis")
	text(cmd.UseLine())
	section("description")
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	long, _, _ = strings.Cut(long, "\n\n"+exitStatuses)
	for part := range strings.SplitSeq(long, "\n\n") {
		fmt.Fprint(b, ".PP\n")
		text(part)
	}
	if cmd.HasAvailableSubCommands() {
		section("commands")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(manName(sub)), roff(sub.Short))
			}
		}
	}
	manFlags(b, cmd, "options", "")
	for _, g := range helpGroups() {
		manFlags(b, cmd, string(g), g)
	}
	if cmd.HasExample() {
		section("examples")
		fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(cmd.Example))
	}
	section("exit status")
	for line := range strings.Lines(strings.TrimPrefix(exitStatuses, "Exit status:\n")) {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), " ")
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", code, roff(strings.TrimSpace(meaning)))
	}
	if cmd.HasParent() {
		section("see also")
		fmt.Fprintf(b, ".BR %s (1)\n", roff(manName(cmd.Parent())))
	}
	return b.String()
}

// manFlags writes the flags of a command that are of a group, if there are any.
func manFlags(b *strings.Builder, cmd *cobra.Command, title string, group config.Group) {
	begun := false
	cmd.NonInheritedFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || strings.Join(flag.Annotations[groupOfFlag], "") != string(group) {
			return
		}
		if !begun {
			fmt.Fprintf(b, ".SH %s\n", roff(strings.ToUpper(title)))
			begun = true
		}
		kind, what := pflag.UnquoteUsage(flag)
		name := "--" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand + ", " + name
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fP", roff(name)) // the line is the tag
		if kind != "" {
			fmt.Fprintf(b, " \\fI%s\\fP", roff(kind))
		}
		if usual := flag.DefValue; usual != "" && usual != "false" && usual != "[]" && usual != "0" {
			what += " (default " + usual + ")"
		}
		fmt.Fprintf(b, "\n%s\n", roff(what))
	})
}

// roff escapes a text so that it is shown as it is. A line of it is no request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "…", "...").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
