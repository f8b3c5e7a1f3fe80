package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/mapwright/mapwright/internal/config"
)

// groupOfFlag is the annotation of a flag that names its group of settings.
const groupOfFlag = "mapwright_group"

// helpGroups are the groups as help shows them: the most used come first.
func helpGroups() []config.Group {
	return []config.Group{
		config.Limits, config.Scope, config.Output, config.Fetching, config.Access, config.Robots, config.Seeding,
		config.Seeing, config.Pace, config.Controls, config.Governor, config.Engine,
	}
}

// usageByGroup is the usage of a command that takes settings: its own flags first, then the settings by group.
func usageByGroup(cmd *cobra.Command) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasExample() {
		fmt.Fprintf(out, "\nExamples:\n%s\n", cmd.Example)
	}
	width := columns(cmd.OutOrStdout())
	section := func(title string, group config.Group) {
		fs := pflag.NewFlagSet(title, pflag.ContinueOnError)
		fs.SortFlags = false
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if of := flag.Annotations[groupOfFlag]; strings.Join(of, "") == string(group) {
				fs.AddFlag(flag)
			}
		})
		if fs.HasAvailableFlags() {
			fmt.Fprintf(out, "\n%s:\n%s", title, fs.FlagUsagesWrapped(width))
		}
	}
	section("Flags", "")
	for _, g := range helpGroups() {
		section(string(g), g)
	}
	name := exampleOf(cmd)
	fmt.Fprintf(out, "\nEach of these is also an environment variable and a key of a --config file: --%s is %s and "+
		"%s.\n", name, config.EnvName(name), strings.ReplaceAll(name, "-", "_"))
	otherNames(out, cmd)
	fmt.Fprintf(out, "\n%s", exitStatuses)
	_, err := fmt.Fprint(cmd.OutOrStdout(), out)
	return err
}

// exampleOf is a setting that a command takes: max-urls, or the first one of two words.
func exampleOf(cmd *cobra.Command) (name string) {
	for _, e := range new(config.Settings).Table() {
		if flag := cmd.Flags().Lookup(e.Name); flag != nil && !flag.Hidden &&
			(e.Name == "max-urls" || name == "" && strings.Contains(e.Name, "-")) {
			name = e.Name
		}
	}
	return name
}

// exitStatuses is the part of help that explains the exit status.
const exitStatuses = `Exit status:
  0    complete
  1    failed
  2    bad usage
  3    partial: a limit ended the crawl
  130  interrupted by SIGINT, SIGTERM or SIGHUP; 'mapwright resume' goes on
`

// otherNames writes the other names of the settings that a command takes: flags, and environment variables without the
// prefix.
func otherNames(out io.Writer, cmd *cobra.Command) {
	var flags, env []string
	for _, e := range new(config.Settings).Table() {
		if flag := cmd.Flags().Lookup(e.Name); flag == nil || flag.Hidden {
			continue
		}
		for _, name := range e.Flags {
			flags = append(flags, fmt.Sprintf("  --%s is --%s\n", name, e.Name))
		}
		for _, name := range e.Env {
			text := name
			if config.EnvPrefix+name != config.EnvName(e.Name) {
				text += " (" + config.EnvName(e.Name) + ")"
			}
			env = append(env, text)
		}
		if e.EnvMinutes != "" {
			env = append(env, fmt.Sprintf("%s (%s, in minutes)", e.EnvMinutes, config.EnvName(e.Name)))
		}
	}
	if len(flags) > 0 {
		fmt.Fprintf(out, "\nOther names of flags:\n%s", strings.Join(flags, ""))
	}
	if len(env) > 0 {
		fmt.Fprintf(out, "\nEnvironment variables that are understood without %s too:\n  %s\n", config.EnvPrefix,
			strings.Join(env, "\n  "))
	}
}

// columns is the width of the terminal. It is 0 if out is not a terminal: then lines are not wrapped.
func columns(out io.Writer) int {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// ifGiven is the value of a flag, or nil if it was not given.
func ifGiven[T any](cmd *cobra.Command, flag string, value T) *T {
	if cmd.Flags().Changed(flag) {
		return &value
	}
	return nil
}

// complete lets a shell offer values for a flag.
func complete(cmd *cobra.Command, flag string, values []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is not there, or was registered twice: a mistake in this program
	}
}

// explain makes the error of a flag say where to look, and what was probably meant.
func explain(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("'%s --help' lists the flags", cmd.CommandPath())
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := missing.GetSpecifiedName()
		if gone := config.Removed(name); gone != "" {
			return usage("--%s is refused: %s: leave it out", name, gone)
		}
		if known := otherCrawlers()[name]; known != "" && cmd.Flags().Lookup("max-urls") != nil {
			hint = known
		} else if near := nearest(cmd.Flags(), name); near != "" {
			hint = fmt.Sprintf("did you mean --%s?", near)
		}
	}
	return usage("%w: %s", err, hint)
}

// otherCrawlers are flags of other crawlers and downloaders that Mapwright does not have, and what to use instead.
func otherCrawlers() map[string]string {
	const (
		delay = "--delay 2s sets the delay between two requests to a host; --min-delay-ms and --max-delay-ms draw it " +
			"at random"
		workers = "--workers sets the number of requests at once, --max-inflight-per-host that of one host"
		depth   = "did you mean --max-depth?"
		pages   = "did you mean --max-urls?"
		archive = "--warc writes archives into the folder warc of the data directory"
		user    = "--basic-auth USER:PASSWORD@HOST gives a password to one site, --login fills in a form"
	)
	return map[string]string{
		"wait": delay, "crawl-delay": delay, "rate-limit": delay, "rate": delay,
		"threads": workers, "concurrency": workers, "parallel": workers, "connections": workers,
		"depth": depth, "level": depth, "limit": pages, "pages": pages,
		"warc-file": archive, "warc-cdx": archive, "warc-header": archive,
		"user": user, "password": user, "http-user": user, "http-password": user, "auth": user,
		"load-cookies": "did you mean --cookie-file?",
		"cookie-jar":   "--cookies keeps cookies, --cookie-file reads them",
		"post-data":    "--login and --login-data fill in a login form", "ca-certificate": "did you mean --ca-file?",
		"cacert": "did you mean --ca-file?", "certificate": "did you mean --client-cert?",
		"no-check-certificate": "did you mean --insecure? --ca-file trusts one authority and is safer",
		"external":             "did you mean --check-external?",
		"spider":               "did you mean --dry-run or --check-external?",
		"output":               "did you mean --data-dir? 'mapwright export --output DIRECTORY' writes copies elsewhere",
		"url":                  "did you mean --start-url?", "urls": "did you mean --start-url?",
		"input-file": "give --start-url the file; with --list no links are followed",
		"domains":    "did you mean --scope?", "sitemap": "did you mean --seeding-strategy?",
		"no-robots": "did you mean --ignore-robots?",
	}
}

// nearest is the flag whose name is most like an unknown one, or "".
func nearest(fs *pflag.FlagSet, name string) string {
	const most = 3 // typing mistakes; more make another word
	best, at := "", most+1
	fs.VisitAll(func(flag *pflag.Flag) {
		if d := distance(name, flag.Name); d < at && d < len(name) {
			best, at = flag.Name, d
		}
	})
	return best
}

// distance is how many letters must be added, dropped or changed to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
