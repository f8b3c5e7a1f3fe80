package view

import (
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/view/mute"
)

// redrawEvery is how often a picture is drawn again: often enough to look alive, seldom enough to cost nothing.
const redrawEvery = 500 * time.Millisecond

// Options are what a view needs.
type Options struct {
	Out    *os.File           // the terminal, as CanDraw gave it
	Screen Screen             // what it can show; its size is found out
	Live   func() *crawl.Live // the crawl's state
	Notes  func() Notes
	Log    *slog.Logger
}

// View is a picture on a terminal.
type View struct {
	o       Options
	program *tea.Program
	echo    *echo
	end     chan struct{}
	once    sync.Once
	done    sync.WaitGroup
}

// Start takes the terminal and draws until Stop.
func Start(o Options) *View {
	v := &View{o: o, echo: echoOf(o.Out), end: make(chan struct{})}
	// The empty input is not a terminal, so the library leaves the terminal's mode alone and reads no keys.
	v.program = tea.NewProgram(model{screen: o.Screen}, tea.WithOutput(o.Out), tea.WithInput(strings.NewReader("")),
		tea.WithAltScreen(), tea.WithoutSignalHandler(), tea.WithoutBracketedPaste(), tea.WithFPS(10))
	v.echo.off()
	v.done.Go(func() {
		if _, err := v.program.Run(); err != nil {
			o.Log.Warn("the live view failed", "error", err)
		}
	})
	v.done.Go(v.feed)
	return v
}

// Stop gives the terminal back. It may be called twice.
func (v *View) Stop() {
	v.once.Do(func() { close(v.end) })
	v.done.Wait()
	v.echo.restore()
}

// frame is a new state to draw.
type frame struct {
	live  *crawl.Live
	notes Notes
}

// feed sends a frame at each tick, and sees to it that a suspended process does not leave its picture behind.
func (v *View) feed() {
	defer v.program.Quit()
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	suspend := make(chan os.Signal, 1)
	notifySuspend(suspend)
	defer signal.Stop(suspend)
	for {
		v.program.Send(frame{v.o.Live(), v.o.Notes()})
		select {
		case <-v.end:
			return
		case <-tick.C:
		case <-suspend:
			v.suspend()
		}
	}
}

func init() { mute.End() }

// model is the picture as the library wants it.
type model struct {
	screen Screen
	live   *crawl.Live
	notes  Notes
}

// Init implements [tea.Model].
func (m model) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case frame:
		m.live, m.notes = msg.live, msg.notes
	case tea.WindowSizeMsg:
		m.screen.Width, m.screen.Height = msg.Width, msg.Height
	}
	return m, nil
}

// View implements [tea.Model].
func (m model) View() string {
	if m.screen.Width == 0 || m.live == nil {
		return "" // both come in a moment
	}
	return Render(m.live, m.notes, m.screen)
}
