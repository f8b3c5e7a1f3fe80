package main

import (
	"context"
	"os"
	"sync"
	"sync/atomic"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/view"
)

// progress shows a running crawl: as a picture on a terminal, elsewhere as a line each ten seconds.
type progress struct {
	terminal *os.File // nil means lines
	able     view.Screen
	log      *runLog

	drawn  atomic.Pointer[view.View] // set by start; read by release, which a signal may call at any time
	cancel context.CancelFunc
	lines  sync.WaitGroup
}

// newProgress decides between the picture and the lines. Both go to standard error, so that standard output has only
// what the command prints.
func newProgress(environ []string, io stdio, onlyLines bool) *progress {
	p := &progress{able: view.Able(environ)}
	if f, can := view.CanDraw(io.err, environ); can && !onlyLines {
		p.terminal = f
	}
	return p
}

// start shows a crawl until stop.
func (p *progress) start(m *monitor.Monitor, dir datadir.Dir, hint string) {
	p.log.openIn(dir.Log())
	if p.terminal != nil && p.log.path != "" {
		p.drawn.Store(view.Start(view.Options{
			Out: p.terminal, Screen: p.able, Live: m.Live, Log: p.log.Logger,
			Notes: func() view.Notes {
				return view.Notes{Log: p.log.path, Warnings: p.log.warnings.Load(),
					Hint: hint}
			},
		}))
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.lines.Go(func() { view.Lines(ctx, p.log.Logger, m.Live) })
}

// release gives the terminal back, if it was taken.
func (p *progress) release() {
	if drawn := p.drawn.Load(); drawn != nil {
		drawn.Stop()
	}
}

// stop ends what start began.
func (p *progress) stop() {
	p.release()
	if p.cancel != nil {
		p.cancel()
	}
	p.lines.Wait()
}
