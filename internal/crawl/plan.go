package crawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/export"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// Plan is crawl.json: what the crawl in a data directory starts from and by which settings. It is written whole when the crawl is
// made, and again when a resume is given other settings.
type Plan struct {
	SchemaVersion int                 `json:"schema_version"`
	CreatedAt     page.Time           `json:"created_at"`
	Starts        []PlanStart         `json:"start_urls"`
	Settings      map[string][]string `json:"settings"` // for config.FromStored
}

// PlanStart is a start URL in a plan.
type PlanStart struct {
	URL  string `json:"url"`
	Bare bool   `json:"bare,omitempty"`
}

// planVersion is the form of crawl.json.
const planVersion = 1

// NewPlan is the plan of a crawl that begins now.
func NewPlan(s *config.Settings, starts []Start) *Plan {
	p := &Plan{SchemaVersion: planVersion, CreatedAt: page.Time{Time: time.Now()}, Settings: s.Stored()}
	for _, st := range starts {
		p.Starts = append(p.Starts, PlanStart{st.URL.String(), st.Bare})
	}
	return p
}

// Write puts the plan into the directory.
func (p *Plan) Write(dir Dir) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return export.WriteFile(dir.Plan(), export.Private, append(text, '\n'))
}

// ReadPlan reads the plan of the crawl in a directory.
func ReadPlan(dir Dir) (*Plan, error) {
	text, err := os.ReadFile(dir.Plan())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data directory %s: the crawl ended before its settings were written: delete it with '%s' and start again", dir, dir.Command("wipe"))
	}
	if err != nil {
		return nil, err
	}
	var p Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("read %s: %w", dir.Plan(), err)
	}
	if p.SchemaVersion > planVersion {
		return nil, fmt.Errorf("read %s: version %d is newer than this program knows (%d)", dir.Plan(), p.SchemaVersion, planVersion)
	}
	return &p, nil
}

// URLs are the start URLs.
func (p *Plan) URLs() ([]Start, error) {
	var starts []Start
	for _, s := range p.Starts {
		u, err := urlnorm.Parse(s.URL)
		if err != nil {
			return nil, fmt.Errorf("start URL %q: %w", s.URL, err)
		}
		starts = append(starts, Start{u, s.Bare})
	}
	return starts, nil
}
