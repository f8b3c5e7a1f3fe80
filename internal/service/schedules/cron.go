package schedules

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones are known on machines without a database of them
)

// minInterval is the shortest interval.
const minInterval = time.Minute

// maxDays bounds the search for a due day. The calendar repeats after 400 years, but no expression has a longer gap
// than 40 years: a weekday on 29 February around a year such as 2100.
const maxDays = 41 * 366

// timetable says when something is due: by a cron expression in a time zone, or by an interval. parseCron and every
// make one; the zero value is never due.
//
// A cron expression is about local time. A local time that a clock change leaves out is due once, right after the gap,
// however many due times are in the gap. A local time that exists twice is due the first time only. An interval is
// elapsed time, and clock changes do not concern it.
type timetable struct {
	minutes, hours, days, months, weekdays uint64 // bit n is value n

	// anyDay and anyWeekday mean that the field begins with a star. If neither does, a day that matches one of the two
	// is due; else it must match both.
	anyDay, anyWeekday bool

	zone *time.Location

	every  time.Duration // of an interval; then nothing above is set
	anchor time.Time
}

// field is one of the five fields.
type field struct {
	name        string
	least, most int
	names       []string // of the values, from least on
}

func fields() [5]field {
	return [5]field{
		{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day of month", 1, 31, nil},
		{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
		{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}}, // 7 is Sunday too
	}
}

// macros are names for expressions.
func macros() map[string]string {
	return map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}
}

// parseCron reads an expression of five fields (minute, hour, day of month, month, day of week), or a name such as
// @daily. The zone is an IANA name; empty means UTC.
func parseCron(text, zone string) (timetable, error) {
	var s timetable
	location, err := loadZone(zone)
	if err != nil {
		return s, err
	}
	s.zone = location
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "@") {
		expression, ok := macros()[strings.ToLower(text)]
		if !ok {
			return s, fmt.Errorf("%q is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually",
				text)
		}
		text = expression
	}
	parts := strings.Fields(text)
	if len(parts) != 5 {
		return s, fmt.Errorf("%q has %d fields: want the five fields minute, hour, day of month, month and day of week",
			text, len(parts))
	}
	var errs []error
	for i, to := range []*uint64{&s.minutes, &s.hours, &s.days, &s.months, &s.weekdays} {
		f := fields()[i]
		set, err := f.parse(parts[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
		*to = set
	}
	s.weekdays = (s.weekdays | s.weekdays>>7) & 0x7f
	s.anyDay, s.anyWeekday = isAny(parts[2]), isAny(parts[4])
	if err := errors.Join(errs...); err != nil {
		return timetable{}, err
	}
	if _, ok := s.next(time.Unix(0, 0)); !ok {
		return timetable{}, fmt.Errorf("%q never comes: no such month has such a day", text)
	}
	return s, nil
}

// every returns a timetable that is due at the anchor plus or minus any number of intervals.
func every(interval time.Duration, anchor time.Time) (timetable, error) {
	if interval < minInterval {
		return timetable{}, fmt.Errorf("an interval of %v is too short: the shortest is %v", interval, minInterval)
	}
	return timetable{every: interval, anchor: anchor}, nil
}

func loadZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%q is not a time zone such as UTC or Europe/Berlin", name)
	}
	return location, nil
}

func isAny(text string) bool { return text == "?" || strings.HasPrefix(text, "*") }

// parse reads a list of values, ranges and steps.
func (f field) parse(text string) (set uint64, err error) {
	if text == "?" {
		text = "*"
	}
	for part := range strings.SplitSeq(text, ",") {
		more, err := f.parsePart(part)
		if err != nil {
			return 0, err
		}
		set |= more
	}
	return set, nil
}

// parsePart reads one of *, 5, 1-5, each with or without a step such as /2.
func (f field) parsePart(text string) (set uint64, err error) {
	span, stepText, hasStep := strings.Cut(text, "/")
	from, to := f.least, f.most
	if span != "*" {
		first, last, isRange := strings.Cut(span, "-")
		if from, err = f.value(first); err != nil {
			return 0, err
		}
		switch {
		case isRange:
			if to, err = f.value(last); err != nil {
				return 0, err
			}
			if to == 0 && f.most == 7 && from > 0 {
				to = 7 // such as fri-sun
			}
		case !hasStep:
			to = from
		}
		if to < from {
			return 0, fmt.Errorf("the range %q ends before it begins", span)
		}
	}
	step := 1
	if hasStep {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > 59 {
			return 0, fmt.Errorf("the step %q is not a number from 1 to 59", stepText)
		}
	}
	if span == "*" && f.most == 7 {
		to = 6
	}
	for n := from; n <= to; n += step {
		set |= 1 << n
	}
	return set, nil
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.least + i, nil
		}
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || int(n) < f.least || int(n) > f.most {
		return 0, fmt.Errorf("%q is not a number from %d to %d%s", text, f.least, f.most, f.namesText())
	}
	return int(n), nil
}

func (f field) namesText() string {
	if f.names == nil {
		return ""
	}
	return " or a name such as " + f.names[1]
}

// next is the first due time after the given one, in UTC. It reports false if there is none.
func (s *timetable) next(after time.Time) (time.Time, bool) {
	if s.every > 0 {
		return s.nextInterval(after), true
	}
	if s.zone == nil {
		return time.Time{}, false
	}
	// The day before is looked at too: its last times may be in a gap that ends after the given time.
	local := after.In(s.zone)
	day := time.Date(local.Year(), local.Month(), local.Day()-1, 0, 0, 0, 0, time.UTC)
	for range maxDays {
		if s.isDue(day) {
			if at, ok := s.nextOfDay(day, after); ok {
				return at, true
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}, false
}

func (s *timetable) nextInterval(after time.Time) time.Time {
	if ahead := s.anchor.Sub(after); ahead > 0 { // the clock was ahead when the anchor was set
		return s.anchor.Add(-((ahead - 1) / s.every * s.every)).UTC()
	}
	passed := after.Sub(s.anchor) / s.every
	return s.anchor.Add((passed + 1) * s.every).UTC()
}

// isDue reports whether a day of the calendar is due. Only the date of day counts.
func (s *timetable) isDue(day time.Time) bool {
	if s.months&(1<<day.Month()) == 0 {
		return false
	}
	byDay, byWeekday := s.days&(1<<day.Day()) != 0, s.weekdays&(1<<day.Weekday()) != 0
	if s.anyDay || s.anyWeekday {
		return byDay && byWeekday
	}
	return byDay || byWeekday
}

// nextOfDay is the first due time of a day of the calendar that is after the given time. Due times come in the order of
// local times.
func (s *timetable) nextOfDay(day, after time.Time) (time.Time, bool) {
	for hours := s.hours; hours != 0; hours &= hours - 1 {
		for minutes := s.minutes; minutes != 0; minutes &= minutes - 1 {
			clock := time.Duration(bits.TrailingZeros64(hours))*time.Hour +
				time.Duration(bits.TrailingZeros64(minutes))*time.Minute
			if at := firstTime(day.Add(clock), s.zone); at.After(after) {
				return at.UTC(), true
			}
		}
	}
	return time.Time{}, false
}

// firstTime is the first moment at which clocks in a zone show a local time, which is given as if it were UTC. If the
// local time is in a gap, it is the end of the gap.
func firstTime(local time.Time, zone *time.Location) time.Time {
	at := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, zone)
	start, end := at.ZoneBounds()
	_, offset := at.Zone()
	shown := at.Add(time.Duration(offset) * time.Second).UTC() // what clocks show then, as if it were UTC
	switch {
	case shown.After(local): // time.Date went over the gap
		return start
	case shown.Before(local): // it stayed before the gap
		return end
	case start.IsZero():
		return at
	}
	// If clocks were set back when this zone began, they may have shown the same before.
	_, before := start.Add(-1).Zone()
	if earlier := local.Add(-time.Duration(before) * time.Second); earlier.Before(start) {
		return earlier
	}
	return at
}
