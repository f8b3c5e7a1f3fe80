package view

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
)

// redrawEvery is how often a picture is drawn again: often enough to look alive, seldom enough to cost nothing.
const redrawEvery = 500 * time.Millisecond

// Escape sequences. The picture is on the terminal's second screen, so that the first is unchanged after the picture.
const (
	takeScreen  = "\x1b[?1049h\x1b[?25l" // the second screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	clearScreen = "\x1b[2J"
	clearedLine = "\x1b[%d;1H\x1b[2K" // moves to a line by its number and clears it
)

// Options are what a view needs.
type Options struct {
	Out    *os.File             // the terminal, as CanDraw gave it
	Screen Screen               // what it can show; its size is found out
	Live   func() *monitor.Live // the crawl's state
	Notes  func() Notes
	Log    *slog.Logger
}

// View is a picture on a terminal.
type View struct {
	o    Options
	echo *echo
	end  chan struct{}
	once sync.Once
	done sync.WaitGroup

	// Used by the drawing goroutine only.
	width, height int
	shown         []string // the lines on the terminal, of that width
}

// Start takes the terminal and draws until Stop.
func Start(o Options) *View {
	v := &View{o: o, echo: echoOf(o.Out), end: make(chan struct{})}
	v.echo.off()
	v.done.Go(func() {
		if err := v.draw(); err != nil {
			o.Log.Warn("the live view failed", "error", err)
		}
	})
	return v
}

// Stop gives the terminal back. It may be called twice.
func (v *View) Stop() {
	v.once.Do(func() { close(v.end) })
	v.done.Wait()
	v.echo.restore()
}

// draw draws at each tick. It gives the terminal back while the process is suspended, at the end, and on a panic.
func (v *View) draw() error {
	defer v.write(leaveScreen) // an error means that the terminal is gone
	if err := v.write(takeScreen); err != nil {
		return err
	}
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	suspend := make(chan os.Signal, 1)
	notifySuspend(suspend)
	defer signal.Stop(suspend)
	for {
		if err := v.redraw(); err != nil {
			return err
		}
		select {
		case <-v.end:
			return nil
		case <-tick.C:
		case <-suspend:
			v.suspend()
		}
	}
}

// redraw draws the lines that changed; all of them if the size of the terminal has changed.
func (v *View) redraw() error {
	width, height, err := term.GetSize(int(v.o.Out.Fd()))
	if err != nil {
		return fmt.Errorf("ask for the size of the terminal: %w", err)
	}
	var out strings.Builder
	if width != v.width || height != v.height {
		v.width, v.height, v.shown = width, height, nil
		out.WriteString(clearScreen)
	}
	screen := v.o.Screen
	screen.Width, screen.Height = width, height
	lines := strings.Split(Render(v.o.Live(), v.o.Notes(), screen), "\n")
	for i, line := range lines {
		if i >= len(v.shown) || v.shown[i] != line {
			fmt.Fprintf(&out, clearedLine+"%s", i+1, line)
		}
	}
	v.shown = lines
	return v.write(out.String())
}

func (v *View) write(text string) error {
	_, err := v.o.Out.WriteString(text)
	return err
}
