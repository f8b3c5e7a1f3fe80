package schedules

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func parse(t testing.TB, text, zone string) timetable {
	t.Helper()
	s, err := parseCron(text, zone)
	if err != nil {
		t.Fatalf("%q in %q: %v", text, zone, err)
	}
	return s
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, zone, after, want string }{
		{"* * * * *", "", "2026-11-16T07:00:00Z", "2026-11-16T07:01:00Z"},
		{"* * * * *", "", "2026-11-16T07:00:59.5Z", "2026-11-16T07:01:00Z"},
		{"0 3 * * *", "UTC", "2026-11-16T03:00:00Z", "2026-11-17T03:00:00Z"},
		{"*/15 9-17 * * mon-fri", "", "2026-11-13T17:45:00Z", "2026-11-16T09:00:00Z"},
		{"0 0 * * 7", "", "2026-11-16T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"0 0 * * fri-sun", "", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"},
		{"0 0 13 * fri", "", "2026-11-16T00:00:00Z", "2026-11-20T00:00:00Z"}, // either day
		{"0 0 */31 * mon", "", "2026-11-16T00:00:00Z", "2027-02-01T00:00:00Z"},
		{"0 0 29 2 *", "", "2026-11-16T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 29 2 *", "", "2097-01-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"5/20 * * * *", "", "2026-11-16T00:25:00Z", "2026-11-16T00:45:00Z"},
		{"@weekly", "", "2026-11-16T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"@YEARLY", "", "2026-11-16T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"0 9 1 JAN,jul ?", "America/New_York", "2026-11-16T00:00:00Z", "2027-01-01T14:00:00Z"},

		// Berlin skips 02:00 to 03:00 on 2027-03-28 and repeats it on 2026-10-25.
		{"30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z", "2027-03-28T01:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"},
		// six times in the gap, once after it
		{"*/10 2 * * *", "Europe/Berlin", "2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"},
		{"0 2,3 * * *", "Europe/Berlin", "2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"}, // 03:00 is that time
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-10-25T00:59:00Z", "2026-10-25T02:00:00Z"},
		// Samoa had no 2011-12-30.
		{"0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-30T10:00:00Z"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"},
		// Clocks of Lord Howe Island change by half an hour, those of Beirut at midnight.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z"},
		{"0 0 * * *", "Asia/Beirut", "2026-03-28T12:00:00Z", "2026-03-28T22:00:00Z"},
	} {
		s := parse(t, c.text, c.zone)
		got, ok := s.next(at(t, c.after))
		if want := at(t, c.want); !ok || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%s in %q after %s: %v, want %s", c.text, c.zone, c.after, got, c.want)
		}
	}
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"": "0 fields", "* * * *": "4 fields", "0 0 0 * * *": "6 fields", "60 * * * *": "minute", "* 24 * * *": "hour",
		"* * 0 * *": "day of month", "* * * 13 *": "month",
		"* * * * 8": "day of week", "5-1 * * * *": "ends before", "*/0 * * * *": "step", "*/x * * * *": "step",
		"1,,2 * * * *": "minute", "* * L * *": "day of month",
		"0 0 30 2 *": "never comes", "0 0 31 4,6,9,11 *": "never comes", "@sometimes": "@daily", "-1 * * * *": "minute",
		"* * * * mon#2": "day of week", "1-2-3 * * * *": "minute",
		"61 25 * * *": "hour",
	} {
		if _, err := parseCron(text, ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want it to say %q", text, err, says)
		}
	}
	for _, zone := range []string{"Mars/Olympus", "Local", "../etc/passwd", "europe"} {
		if _, err := parseCron("@daily", zone); err == nil {
			t.Errorf("zone %q is taken", zone)
		}
	}
	if _, err := every(time.Second, time.Time{}); err == nil {
		t.Error("an interval of a second is taken")
	}
	if _, ok := new(timetable).next(time.Now()); ok {
		t.Error("nothing is due")
	}
}

func TestEvery(t *testing.T) {
	t.Parallel()
	s, err := every(6*time.Hour, at(t, "2026-11-16T01:30:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[string]string{
		"2026-11-16T01:29:59Z": "2026-11-16T01:30:00Z", "2026-11-16T01:30:00Z": "2026-11-16T07:30:00Z",
		"2026-11-16T07:29:59Z": "2026-11-16T07:30:00Z", "2026-11-18T00:00:00Z": "2026-11-18T01:30:00Z",
		"2026-11-15T19:30:00Z": "2026-11-16T01:30:00Z", "2026-11-15T19:29:59Z": "2026-11-15T19:30:00Z",
		"2025-11-16T00:00:00Z": "2025-11-16T01:30:00Z",
	} {
		if got, ok := s.next(at(t, after)); !ok || !got.Equal(at(t, want)) {
			t.Errorf("after %s: %v, want %s", after, got, want)
		}
	}
}

// walk finds due times minute by minute: it follows the clock on the wall, and knows no rule but those of the package.
func walk(s *timetable, from, to time.Time) []time.Time {
	var due []time.Time
	seen := map[time.Time]bool{} // local minutes that were shown
	matches := func(local time.Time) bool {
		return s.isDue(local) && s.hours&(1<<local.Hour()) != 0 && s.minutes&(1<<local.Minute()) != 0
	}
	wall := func(t time.Time) time.Time { // what clocks show, as if it were UTC
		_, offset := t.In(s.zone).Zone()
		return t.Add(time.Duration(offset) * time.Second).UTC()
	}
	for now := from.Add(-48 * time.Hour).Truncate(time.Minute); !now.After(to); now = now.Add(time.Minute) {
		shown, before := wall(now), wall(now.Add(-time.Minute))
		hit := !seen[shown] && matches(shown)
		for skipped := before.Add(time.Minute); skipped.Before(shown); skipped = skipped.Add(time.Minute) {
			hit = hit || matches(skipped)
		}
		seen[shown] = true
		if hit && now.After(from) {
			due = append(due, now)
		}
	}
	return due
}

func compare(t *testing.T, text, zone string, from time.Time, days int) {
	t.Helper()
	s, err := parseCron(text, zone)
	if err != nil {
		return
	}
	to := from.Add(time.Duration(days) * 24 * time.Hour)
	now := from
	for _, want := range walk(&s, from, to) {
		got, ok := s.next(now)
		if !ok || !got.Equal(want) {
			t.Fatalf("%s in %s after %s: %v, the walk finds %v", text, zone, now.In(s.zone), got.In(s.zone),
				want.In(s.zone))
		}
		now = got
	}
	if got, ok := s.next(now); ok && !got.After(to) {
		t.Fatalf("%s in %s after %s: %v, the walk finds none before %v", text, zone, now.In(s.zone), got.In(s.zone), to)
	}
}

// Around every kind of clock change, random expressions give what a walk over every minute gives.
func TestAgainstAWalk(t *testing.T) {
	t.Parallel()
	changes := map[string][]string{
		"Europe/Berlin":       {"2026-10-24T00:00:00Z", "2027-03-27T00:00:00Z"},
		"America/New_York":    {"2026-10-31T12:00:00Z", "2027-03-13T12:00:00Z"},
		"Australia/Lord_Howe": {"2026-10-03T00:00:00Z", "2027-04-03T00:00:00Z"},
		"Asia/Beirut":         {"2026-03-28T00:00:00Z", "2026-10-24T00:00:00Z"},
		"America/Havana":      {"2026-10-31T12:00:00Z", "2027-03-13T12:00:00Z"},
		"Pacific/Apia":        {"2011-12-29T00:00:00Z"},
		"America/Caracas":     {"2007-12-08T12:00:00Z", "2016-04-30T12:00:00Z"},
		"Africa/Casablanca":   {"2026-02-14T00:00:00Z", "2026-03-21T00:00:00Z"},
		"Antarctica/Troll":    {"2027-03-27T12:00:00Z", "2026-10-24T12:00:00Z"},
		"UTC":                 {"2028-02-28T00:00:00Z"},
	}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	for zone, starts := range changes {
		for _, start := range starts {
			for range 6 {
				text := strings.Join([]string{
					pick("*", "0", "*/7", "30", "15,45", "59", "10-20/3", "0,30"),
					pick("*", "0", "1", "2", "3", "23", "1-3", "*/2", "22-23"),
					pick("*", "*", "28-31", "*/2", "1"), pick("*", "*", "3,10", "*/2"),
					pick("*", "*", "sun", "mon-fri", "6,0"),
				}, " ")
				compare(t, text, zone, at(t, start).Add(time.Duration(random.IntN(600))*time.Second), 3)
			}
		}
	}
}

func FuzzNext(f *testing.F) {
	f.Add("30 2 * * *", "Europe/Berlin", int64(1806100000))
	f.Add("*/5 0-3,23 * 3,10 sun", "America/New_York", int64(1793500000))
	f.Add("@monthly", "Pacific/Apia", int64(1325200000))
	f.Fuzz(func(t *testing.T, text, zone string, unix int64) {
		if unix < 100_000_000 || unix > 4_000_000_000 {
			return // until 1972 some zones are not whole minutes away from UTC
		}
		compare(t, text, zone, time.Unix(unix, 0), 2)
	})
}
