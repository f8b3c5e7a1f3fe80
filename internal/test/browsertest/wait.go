//go:build browser

package browsertest

import (
	"time"

	"github.com/chromedp/chromedp"
)

// untilTime is how long Until waits.
const untilTime = time.Minute

// Holds says whether an expression is true in the page. It is not while another page is being loaded.
func (p *Tab) Holds(expression string) bool {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx,
		chromedp.Evaluate[bool]("document.readyState === 'complete' && Boolean("+expression+")"))
	if p.ctx.Err() != nil {
		p.t.Fatalf("%s: %s: %v", p.look, expression, err)
	}
	return err == nil && value
}

// Until waits until an expression is true in the page that the tab shows then.
func (p *Tab) Until(what, expression string) {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(untilTime); !p.Holds(expression); <-tick.C {
		if time.Now().After(end) {
			p.t.Fatalf("%s: %s: not within %s. The page is %s", p.look, what, untilTime,
				Eval[string](p, "location.href + ' ' + document.body.innerText.slice(0, 2000)"))
		}
	}
}
