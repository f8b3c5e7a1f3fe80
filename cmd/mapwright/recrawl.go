package main

import (
	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
)

func newRecrawl(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
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
  mapwright recrawl site --include /news/
  mapwright recrawl --cluster postgres://mapwright@db.example/crawls --name example.com`,
		Args: oneDirectory,
	})
	c.addRun()
	maxAge := c.Flags().String("max-age", "",
		"visit only URLs whose last check is longer ago than this `age`, such as 12h, 7d or 2w")
	return c.does(func(args []string) error {
		address, err := c.cluster(args)
		if err != nil {
			return err
		}
		dir, err := c.existing(args)
		if err != nil {
			return err
		}
		again := &crawl.Recrawl{Include: c.take("include"), Exclude: c.take("exclude")}
		if *maxAge != "" {
			if again.MaxAge, err = config.ParseAge(*maxAge); err != nil {
				return usage("flag --max-age: %w", err)
			}
		}
		if err := again.Check(); err != nil {
			return usage("flags --include and --exclude: %w", err)
		}
		switch {
		case address == "":
			return c.continueCrawl(dir, again)
		case c.printsConfig:
			return usage("--print-config shows the settings of a crawl of this machine alone")
		}
		if err := checkMachineDir(dir); err != nil {
			return refusal(err)
		}
		return (&machine{command: c, dir: dir, address: address, resume: true, again: again}).join()
	})
}

// take takes a setting out of those that were given as flags, and returns its texts.
func (c *command) take(setting string) []string {
	texts := c.given[setting].Texts
	delete(c.given, setting)
	return texts
}
