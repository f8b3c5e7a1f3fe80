package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

func newDemo(environ []string, io stdio) *cobra.Command {
	var (
		dir     string
		setting *settingFlags
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serve a small built-in site on loopback and crawl it",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			setting.base = config.Layer{config.ProfileName: {Texts: []string{string(config.OwnSite)}, From: "demo"}}
			web, err := testweb.Start(testweb.DemoConfig())
			if err != nil {
				return &exitError{exitFailed, err}
			}
			defer web.Close()
			setting.given["resolve"] = config.Given{Texts: []string{web.Resolve()}, From: "demo"}
			loaded, err := setting.load()
			if err != nil {
				return err
			}
			if dir == "" {
				if dir, err = os.MkdirTemp("", "mapwright-demo-"); err != nil {
					return &exitError{exitFailed, err}
				}
			}
			starts, err := readStarts(web.StartURLs(), io.in)
			if err != nil {
				return err
			}
			if err := datadir.Dir(dir).CheckNew(); err != nil {
				return refusal(err)
			}
			fmt.Fprintf(io.out, "A small site is served on %s; crawling it into %s\n\n", web.Addr(), dir)
			return runCrawl(cmd.Context(), environ, io, crawl.Options{Settings: loaded.Settings, Starts: starts,
				Dir: datadir.Dir(dir)}, loaded.Warnings, false, nil)
		},
	}
	cmd.Flags().StringVarP(&dir, config.DataDirName, "d", "", "`directory` of the crawl (default: a temporary one)")
	setting = addSettings(cmd, environ)
	return cmd
}
