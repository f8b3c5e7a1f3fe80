package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
)

// Input is a new schedule, or a change of one. Fields that are nil stay as they are. An empty text removes what was
// there.
type Input struct {
	Name       *string             `json:"name,omitempty"`
	Cron       *string             `json:"cron,omitempty"`
	Interval   *string             `json:"interval,omitempty"`
	Zone       *string             `json:"zone,omitempty"`
	Enabled    *bool               `json:"enabled,omitempty"`
	Submission *service.Submission `json:"submission,omitempty"`
	Crawl      *string             `json:"crawl,omitempty"`
	Recrawl    *service.Recrawl    `json:"recrawl,omitempty"`
}

// applyTo changes a row. A cron expression replaces an interval, and a submission replaces a crawl, and the other way
// round. So one field is enough for a change.
func (in *Input) applyTo(r *row) {
	if in.Cron != nil && in.Interval == nil && *in.Cron != "" {
		r.Interval = ""
	}
	if in.Interval != nil && in.Cron == nil && *in.Interval != "" {
		r.Cron = ""
	}
	if in.Submission != nil && in.Crawl == nil {
		r.Crawl, r.Recrawl = "", nil
	}
	if in.Crawl != nil && in.Submission == nil && *in.Crawl != "" {
		r.Submission = nil
	}
	service.Set(&r.Name, in.Name)
	service.Set(&r.Cron, in.Cron)
	service.Set(&r.Interval, in.Interval)
	service.Set(&r.Zone, in.Zone)
	service.Set(&r.Crawl, in.Crawl)
	service.Set(&r.Enabled, in.Enabled)
	if in.Submission != nil {
		r.Submission = in.Submission
	}
	if in.Recrawl != nil {
		r.Recrawl = in.Recrawl
	}
}

// Bounds of the texts of a schedule, in bytes. Names of zones are found with any number of slashes.
const (
	maxName = 200
	maxZone = 64
)

// starts reports whether a change says what the schedule starts.
func (in *Input) starts() bool { return in.Submission != nil || in.Crawl != nil || in.Recrawl != nil }

// check names every fault of a schedule. It sets the zone, if there is none, and when the schedule is due. What the
// schedule starts is judged only if starts is set, for the account of the schedule: one that is disabled may have what
// is not allowed any more.
func (s *Schedules) check(ctx context.Context, c *service.Caller, r *row, starts bool) error {
	account, err := s.service.Accounts.Get(ctx, r.Account)
	if err != nil {
		return err
	}
	owner := *c
	owner.Account = account
	var faults []service.FieldError
	fault := func(field, code, detail string) {
		faults = append(faults, service.FieldError{Field: field, Code: code, Detail: detail})
	}
	if len(r.Name) > maxName {
		fault("name", "invalid", "it is longer than 200 bytes")
	}
	r.Zone = cmp.Or(r.Zone, "UTC")
	if len(r.Zone) > maxZone {
		fault("zone", "invalid", fmt.Sprintf("it has %d bytes, at most %d are allowed", len(r.Zone), maxZone))
		r.Zone = "UTC"
	}
	if _, err := parseCron("@daily", r.Zone); err != nil {
		fault("zone", "invalid", err.Error())
		r.Zone = "UTC" // so that the rest can be judged
	}
	when, field, err := r.when()
	if err != nil {
		fault(field, "invalid", err.Error())
	}
	switch {
	case r.Submission == nil && r.Crawl == "":
		fault("submission", "missing",
			"give the crawl to start as submission, or the id of a crawl to visit again as crawl")
	case r.Submission != nil && r.Crawl != "":
		fault("crawl", "invalid", "give either submission or crawl")
	case r.Submission != nil && r.Recrawl != nil:
		fault("recrawl", "invalid", "it belongs to a schedule with crawl")
	case !starts:
	case r.Submission != nil:
		if err := addFaults(&faults, "submission.", s.service.Crawls.Check(ctx, &owner, *r.Submission)); err != nil {
			return err
		}
	default:
		_, err := s.service.Crawls.Get(ctx, c, r.Crawl)
		if err := addFaults(&faults, "crawl", err); err != nil {
			return err
		}
		if r.Recrawl != nil {
			if err := addFaults(&faults, "recrawl.", r.Recrawl.Check()); err != nil {
				return err
			}
		}
	}
	if err := service.Invalid("the schedule", faults); err != nil {
		return err
	}
	r.NextAt = page.Time{}
	if r.Enabled {
		r.setNext(when, time.Now())
	}
	return nil
}

// addFaults adds the faults that an error of the service names, below a field. Another error is returned.
func addFaults(faults *[]service.FieldError, field string, err error) error {
	of, ok := errors.AsType[*service.Error](err)
	if !ok {
		return err
	}
	if len(of.Fields) == 0 {
		*faults = append(*faults, service.FieldError{Field: field, Code: string(of.Code), Detail: of.Detail})
	}
	for _, f := range of.Fields {
		*faults = append(*faults, service.FieldError{Field: field + f.Field, Code: f.Code, Detail: f.Detail})
	}
	return nil
}

// when is the time at which the schedule is due. An error is about the field that is returned with it.
func (r *row) when() (when timetable, field string, err error) {
	const most = 1000 // bytes; a list of every minute of an hour has 169
	switch {
	case len(r.Cron) > most:
		return when, "cron", fmt.Errorf("it has %d bytes, at most %d are allowed", len(r.Cron), most)
	case len(r.Interval) > most:
		return when, "interval", fmt.Errorf("it has %d bytes, at most %d are allowed", len(r.Interval), most)
	case r.Cron == "" && r.Interval == "":
		return when, "cron", errors.New("give a cron expression such as '0 3 * * *', or an interval such as 6h")
	case r.Cron != "" && r.Interval != "":
		return when, "interval", errors.New("give either cron or interval")
	case r.Interval != "":
		long, err := config.ParseAge(r.Interval)
		if err != nil {
			return when, "interval", err
		}
		when, err = every(long, r.CreatedAt.Time)
		return when, "interval", err
	}
	when, err = parseCron(r.Cron, r.Zone)
	return when, "cron", err
}

// times is what setNext depends on.
func (r *row) times() [4]any { return [4]any{r.Enabled, r.Cron, r.Interval, r.Zone} }

// setNext sets when the schedule is due after a time.
func (r *row) setNext(when timetable, after time.Time) {
	r.NextAt = page.Time{}
	if next, ok := when.next(after); ok {
		r.NextAt = page.Time{Time: next}
	}
}
