package main

import (
	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/state"
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
  mapwright recrawl site --include /news/`,
		Args: oneDirectory,
	})
	c.addRun()
	for _, name := range []string{config.ClusterName, config.RedisURLName, config.ReplicasName, config.CrawlName} {
		c.Flags().Lookup(name).Hidden = true // they are refused with the reason
	}
	maxAge := c.Flags().String("max-age", "",
		"visit only URLs whose last check is longer ago than this `age`, such as 12h, 7d or 2w")
	return c.does(func(args []string) error {
		dir, err := c.existing(args)
		if err != nil {
			return err
		}
		if info, _ := state.Look(dir.State()); info.View || c.givesAddress() || c.Flags().Changed(config.CrawlName) {
			return usage("a recrawl works on one machine, in the data directory of its crawl: the URLs of a " +
				"crawl of several machines are not visited again; " +
				"'mapwright crawl --cluster ADDRESS --name NAME --start-url URL' crawls the site anew, under " +
				"another name")
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
		return c.continueCrawl(dir, again)
	})
}

// take takes a setting out of those that were given as flags, and returns its texts.
func (c *command) take(setting string) []string {
	texts := c.given[setting].Texts
	delete(c.given, setting)
	return texts
}
