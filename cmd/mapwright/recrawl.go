package main

import (
	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/state"
)

func newRecrawl(environ []string, io stdio) *cobra.Command {
	var (
		maxAge string
		f      *runFlags
	)
	cmd := &cobra.Command{
		Use:   "recrawl [directory]",
		Short: "Visit the URLs of a finished crawl again, and find out what changed",
		Long: "Visit the URLs of a finished crawl again, in the same directory, and find out what changed. Servers " +
			"are asked whether a page is still as it was, so that most pages are not sent again. " +
			"--include and --exclude choose among the URLs that are known, and hold for this recrawl only; links " +
			"that are new are followed as in the crawl. " +
			"Other settings are those of the crawl; flags and a --config file that are given here replace them, and " +
			"are remembered. 'mapwright resume' goes on with a recrawl that was interrupted.",
		Example: `  mapwright recrawl --data-dir site
  mapwright recrawl site --max-age 7d
  mapwright recrawl site --include /news/`,
		Args: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := f.dir.orArgument(args, f.setting)
			if err != nil {
				return err
			}
			if info, _ := state.Look(dir.State()); info.View || f.shared.isGiven() {
				return usage("a recrawl works on one machine, in the data directory of its crawl: the URLs of a " +
					"crawl of several machines are not visited again; " +
					"'mapwright crawl --cluster ADDRESS --name NAME --start-url URL' crawls the site anew, under " +
					"another name")
			}
			again := &crawl.Recrawl{Include: f.setting.take("include"), Exclude: f.setting.take("exclude")}
			if maxAge != "" {
				if again.MaxAge, err = config.ParseAge(maxAge); err != nil {
					return usage("flag --max-age: %w", err)
				}
			}
			if err := again.Check(); err != nil {
				return usage("flags --include and --exclude: %w", err)
			}
			return continueCrawl(cmd.Context(), environ, io, dir, again, f)
		},
	}
	f = addRunFlags(cmd, environ)
	f.shared.hide() // they are refused with the reason
	cmd.Flags().StringVar(&maxAge, "max-age", "",
		"visit only URLs whose last check is longer ago than this `age`, such as 12h, 7d or 2w")
	return cmd
}

// take takes a setting out of those that were given as flags, and returns its texts.
func (f *settingFlags) take(setting string) []string {
	texts := f.given[setting].Texts
	delete(f.given, setting)
	return texts
}
