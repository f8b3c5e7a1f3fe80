// Command mapwright crawls web sites and writes an accurate map of what it found.
//
// It only wires: flags, signals and the terminal are here, everything else is in the packages.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
	"github.com/mapwright/mapwright/wal"
)

// Exit statuses.
const (
	exitComplete    = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPartial     = 3
	exitInterrupted = 130
)

// exitError carries an exit status up to main. A nil err means that everything has been said already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as the caller's mistake.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// stdio holds the three streams. Commands use them instead of the globals of package os.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	tuneGarbage()
	log.SetOutput(io.Discard) // net/http writes a line for each frame of HTTP/2 that it does not know
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// run is main without the process: it returns the exit status.
func run(ctx context.Context, args, environ []string, io stdio) int {
	io.out = page.EscapingWriter{Writer: io.out} // servers may have given a part of what is shown
	root := newRoot(environ, io)
	root.SetArgs(joinBooleans(root, args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitComplete
	}
	code := exitUsage // what cobra itself refuses: unknown commands and flags, missing arguments
	if exit, ok := errors.AsType[*exitError](err); ok {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	text := page.EscapeControls(oneLine(err.Error()))
	if isDamage(err) {
		code = exitFailed
		text += "; restore the data directory from a copy, or delete it with 'mapwright wipe' and crawl again"
	}
	fmt.Fprintln(io.err, "mapwright: "+text)
	return code
}

// isDamage reports whether files of a crawl are damaged.
func isDamage(err error) bool {
	_, ofState := errors.AsType[*state.CorruptError](err)
	_, ofLog := errors.AsType[*wal.CorruptError](err)
	return ofState || ofLog
}

// oneLine joins the lines of an error, so that one mistake is one line.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
}

func newRoot(environ []string, io stdio) *cobra.Command {
	root := &command{stdio: io, environ: environ, Command: &cobra.Command{
		Use:           "mapwright",
		Short:         "Crawl web sites and write an accurate map of what was found",
		Long:          "Crawl web sites and write an accurate map of what was found.\n\n" + exitStatuses,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          oneOfTheCommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		SuggestionsMinimumDistance: 2,
		Version:                    version,
	}}
	root.SetVersionTemplate(versionLine())
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.SetFlagErrorFunc(explain)
	cobra.EnableCommandSorting = false
	group := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("crawl", "Crawling:", newCrawl(root), newResume(root), newJoin(root), newRecrawl(root), newStatus(root),
		newExport(root), newChanges(root), newWipe(root))
	group("serve", "A server for crawls:", newServe(root), newKeys(root), newRemote(root))
	group("frontier", "A frontier for other crawlers:", newFrontier(root))
	group("look", "Looking at one page:", newInspect(root), newRobots(root))
	group("other", "More:", newDemo(root), newDoctor(root), newMan(root), newVersion(root))
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	return root.Command
}

// oneOfTheCommands refuses an argument that is not a command, and suggests the nearest one.
func oneOfTheCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := fmt.Sprintf("'%s --help' lists the commands", cmd.CommandPath())
	if !cmd.HasParent() {
		hint = "'mapwright help' lists the commands"
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s?", strings.Join(near, " or "))
	} else if strings.Contains(args[0], ".") {
		hint = fmt.Sprintf("did you mean 'mapwright crawl %s'?", args[0])
	}
	return usage("unknown command %q: %s", args[0], hint)
}
