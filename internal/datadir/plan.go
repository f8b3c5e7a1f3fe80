package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// Plan is crawl.json: what the crawl in a data directory starts from and by which settings. It is written whole when
// the crawl is made, and again when a resume is given other settings. A file without a checksum is accepted: it was
// written by an earlier version.
type Plan struct {
	SchemaVersion int                 `json:"schema_version"`
	CreatedAt     page.Time           `json:"created_at"`
	Starts        []PlanStart         `json:"start_urls"`
	Settings      map[string][]string `json:"settings"` // for config.FromStored
	// Generation is nil in the first crawl, and always in a crawl of one machine.
	Generation *PlanGeneration `json:"generation,omitempty"`
	Checksum   string          `json:"checksum,omitempty"` // of the other fields, by sum
}

// PlanGeneration is the generation of a crawl of several machines, after the first. All of them must know it before
// they have read a log. A crawl of one machine has it in its store.
type PlanGeneration struct {
	Run    uint64            `json:"run"`     // the first run of the generation
	UsedMS int64             `json:"used_ms"` // how long the generations before took
	Facts  map[string]string `json:"facts"`   // facts of the crawl, as one machine records them
}

// Start is a URL to start from.
type Start struct {
	URL weburl.URL
	// Bare means that only a domain was given: where https is refused, http is tried.
	Bare bool
}

// PlainHTTP is the URL over http of a start with an https URL.
func (s *Start) PlainHTTP() string { return "http" + s.URL.String()[len("https"):] }

// PlanStart is a start URL in a plan.
type PlanStart struct {
	URL  string `json:"url"`
	Bare bool   `json:"bare,omitempty"`
}

// planVersion is the last form of crawl.json. A new field of Plan needs a new version, because the checksum covers only
// fields that are known. Version 2 has a generation; a plan without one is written as version 1.
const planVersion = 2

// NewPlan is the plan of a crawl that begins now.
func NewPlan(s *config.Settings, starts []Start) *Plan {
	p := &Plan{SchemaVersion: 1, CreatedAt: page.Time{Time: time.Now()}, Settings: s.Stored()}
	for _, st := range TrimStarts(s, starts) {
		p.Starts = append(p.Starts, PlanStart{st.URL.String(), st.Bare})
	}
	return p
}

// Begin puts another generation into the plan.
func (p *Plan) Begin(g PlanGeneration) { p.Generation, p.SchemaVersion = &g, planVersion }

// TrimStarts returns the start URLs as the crawl knows them: without the query parameters that the settings remove, and
// each once.
func TrimStarts(s *config.Settings, starts []Start) []Start {
	params, seen := s.Params(), map[weburl.URL]bool{}
	var out []Start
	for _, st := range starts {
		st.URL = params.Trim(st.URL)
		if !seen[st.URL] {
			seen[st.URL] = true
			out = append(out, st)
		}
	}
	return out
}

// sum is the CRC-32C of the plan without its checksum, as it reads when it has been written and read again.
func (p Plan) sum() (string, error) {
	p.Checksum = ""
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	// Encoding is repeated because it replaces bytes that are not UTF-8, and writes the replacement in another form
	// than such a character.
	var again Plan
	if err := json.Unmarshal(text, &again); err != nil {
		return "", err
	}
	if text, err = json.Marshal(again); err != nil {
		return "", err
	}
	return fmt.Sprintf("%08x", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))), nil
}

// wasKnown reports whether the checksum is that of the same plan in a version that this program knows.
func (p Plan) wasKnown() (bool, error) {
	for p.SchemaVersion = 1; p.SchemaVersion <= planVersion; p.SchemaVersion++ {
		if sum, err := p.sum(); err != nil || sum == p.Checksum {
			return err == nil, err
		}
	}
	return false, nil
}

// Encode makes the text of crawl.json, which is also how the engine of several machines keeps a plan.
func (p *Plan) Encode() ([]byte, error) {
	sum, err := p.sum()
	if err != nil {
		return nil, err
	}
	p.Checksum = sum
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// Write puts the plan into the directory.
func (p *Plan) Write(dir Dir) error {
	text, err := p.Encode()
	if err != nil {
		return err
	}
	return WriteFile(dir.Plan(), Private, text)
}

// RemovePlan deletes the plan of a crawl that did not begin, if it was written.
func RemovePlan(dir Dir) error {
	if err := os.Remove(dir.Plan()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ReadPlan reads the plan of the crawl in a directory.
func ReadPlan(dir Dir) (*Plan, error) {
	text, err := os.ReadFile(dir.Plan())
	if errors.Is(err, fs.ErrNotExist) && isView(dir) {
		return nil, fmt.Errorf("data directory %s is that of a machine of a cluster, whose database has the crawl: "+
			"give --cluster ADDRESS --name NAME instead", dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data directory %s: crawl.json is missing, so the settings of the crawl are not known: "+
			"restore the file from a copy, or delete the crawl with '%s' and start again", dir, dir.Command("wipe"))
	}
	if err != nil {
		return nil, err
	}
	return DecodePlan(text, dir.Plan())
}

// DecodePlan reads the text of a plan. Name says where the plan is, for errors.
func DecodePlan(text []byte, name string) (*Plan, error) {
	var p Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, &state.CorruptError{What: name, Reason: err.Error()}
	}
	sum, err := p.sum()
	if err != nil {
		return nil, err
	}
	damaged := p.Checksum != "" && p.Checksum != sum
	if p.SchemaVersion > planVersion && damaged {
		// The sum of a newer plan covers fields that are not known here. A known plan whose version alone has changed
		// is told by its sum.
		if damaged, err = p.wasKnown(); err != nil {
			return nil, err
		}
	}
	switch {
	case damaged:
		return nil, &state.CorruptError{What: name,
			Reason: "its checksum is wrong (if it was edited, undo that: flags of 'mapwright resume' change settings)"}
	case p.SchemaVersion > planVersion:
		return nil, fmt.Errorf("read %s: version %d is newer than this program knows (%d)", name, p.SchemaVersion,
			planVersion)
	case p.SchemaVersion < 1 || len(p.Starts) == 0:
		return nil, &state.CorruptError{What: name, Reason: "it has no version or no start URL"}
	}
	return &p, nil
}

// Profile returns the profile of the settings; empty if they name none.
func (p *Plan) Profile() string {
	if names := p.Settings[config.ProfileName]; len(names) > 0 {
		return names[0]
	}
	return ""
}

// URLs are the start URLs.
func (p *Plan) URLs() ([]Start, error) {
	var starts []Start
	for _, s := range p.Starts {
		u, err := weburl.Parse(s.URL)
		if err != nil {
			return nil, fmt.Errorf("start URL %q: %w", s.URL, err)
		}
		starts = append(starts, Start{u, s.Bare})
	}
	return starts, nil
}

var (
	errNotDomain = errors.New("neither a URL nor a domain")
	errUserinfo  = errors.New("it has a user name or a password, which is not sent: remove it, and give " +
		"--basic-auth USER:PASSWORD@HOST instead")
)

// ParseStart reads a URL, a bare domain, or a host with a port and perhaps a path. Without a scheme, a domain is tried
// with https first, and with http if that is refused. localhost and addresses are taken as http, as browsers do,
// because certificates are rarely made out to them.
func ParseStart(text string) (Start, error) {
	if strings.Contains(text, "://") {
		u, err := weburl.Parse(text)
		if _, found := weburl.CutUserinfo(text); err == nil && found {
			err = errUserinfo
		}
		if err != nil {
			return Start{}, fmt.Errorf("start URL %q: %w", weburl.HideUserinfo(text), err)
		}
		return Start{URL: u}, nil
	}
	u, err := weburl.Parse("https://" + text)
	if err == nil && strings.Contains(text, "@") {
		err = errNotDomain // such as mailto:, which would otherwise pass for a user's name
	}
	if err != nil {
		return Start{}, fmt.Errorf("start URL %q: %w", weburl.HideUserinfo(text), err)
	}
	if _, notAddress := netip.ParseAddr(strings.Trim(u.Host(), "[]")); notAddress == nil ||
		weburl.IsLocalhost(u.Host()) {
		plain, err := weburl.Parse("http://" + text)
		if err == nil && plain.Port() != "443" && plain.Port() != "8443" {
			return Start{URL: plain}, nil
		}
	}
	return Start{URL: u, Bare: true}, nil
}
