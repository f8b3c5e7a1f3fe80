package main

import (
	"bytes"
	"embed"
	"fmt"
	"mime"
	"net"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/datadir"
)

// demoFiles is the site that the demo crawls. {site} in a file stands for the address under which it is served.
//
//go:embed demosite
var demoFiles embed.FS

// serveDemo answers a request for the demo site.
func serveDemo(w http.ResponseWriter, r *http.Request) {
	moved := map[string]string{"/old-hours": "/hours", "/hours": "/about.html"}
	if to := moved[r.URL.Path]; to != "" {
		http.Redirect(w, r, to, http.StatusMovedPermanently)
		return
	}
	name := r.URL.Path
	if strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	text, err := demoFiles.ReadFile("demosite" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	_, _ = w.Write(bytes.ReplaceAll(text, []byte("{site}"), []byte("http://"+r.Host))) // the client may be gone
}

func newDemo(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{Use: "demo", Short: "Serve a small built-in site on loopback and crawl it",
		Args: noArguments})
	c.base = config.Layer{config.ProfileName: {Texts: []string{string(config.OwnSite)}, From: "demo"}}
	c.Flags().StringVarP(&c.dataDir, config.DataDirName, "d", "",
		"`directory` of the crawl (default: a temporary one)")
	c.addSettings()
	c.addQuiet()
	return c.does(func([]string) error {
		loaded, err := c.load()
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return &exitError{exitFailed, err}
		}
		site := &http.Server{Handler: http.HandlerFunc(serveDemo)}
		go func() { _ = site.Serve(listener) }() // it ends when the site is closed
		defer site.Close()
		starts, err := readStarts([]string{fmt.Sprintf("http://%s/", listener.Addr())}, c.in)
		if err != nil {
			return err
		}
		if c.dataDir == "" {
			if c.dataDir, err = os.MkdirTemp("", "mapwright-demo-"); err != nil {
				return &exitError{exitFailed, err}
			}
		}
		dir := datadir.Dir(c.dataDir)
		if err := dir.CheckNew(); err != nil {
			return refusal(err)
		}
		if !c.quiet {
			fmt.Fprintf(c.out, "A small site is served on %s; crawling it into %s\n\n", listener.Addr(), dir)
		}
		return c.runCrawl(crawl.Options{Settings: loaded.Settings, Starts: starts, Dir: dir}, loaded.Warnings, nil)
	})
}
