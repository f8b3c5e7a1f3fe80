package monitor

import (
	"context"
	"log/slog"
	"time"

	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// Ended is a crawl whose end is decided and recorded, as its outputs need it. Its store is open.
type Ended struct {
	Store    *state.Store
	Settings *config.Settings
	// Given, when not nil, has the settings, by file key, that a user of a service gave. The report names no other
	// settings except limits, and no command.
	Given   map[string]bool
	Starts  []datadir.Start
	Dir     datadir.Dir
	Version string
	Log     *slog.Logger
	// Unnamed means that sitemaps list more URLs than several machines of an earlier version could note.
	Unnamed bool

	Status           page.Status
	Success          bool
	Reason           string
	Errors, Warnings []string
	Pages            int64         // that this run fetched
	Crawled          time.Duration // how long this run crawled, without the outputs
	HotBytes         int64         // memory that this run used as cache

	// Room bounds the outputs; nil if nothing does.
	Room *datadir.Room

	// DryRun means that no page was requested, since the run only says which pages it would fetch.
	DryRun bool

	// Spent is called once, when the outputs are written.
	Spent func(context.Context) (Spent, error)
}

// Spent is what the runs of a generation used.
type Spent struct {
	Began   time.Time // the first run
	Runs    int
	Elapsed time.Duration    // of all runs, outputs included
	Cluster *session.History // nil in a crawl of one machine
}
