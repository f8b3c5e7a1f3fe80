package datadir

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// Whatever bit of crawl.json changes, the plan is refused as damaged or is what it was.
func TestPlanWithAFlippedBit(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	plan := &Plan{SchemaVersion: planVersion, CreatedAt: page.Time{},
		Starts:   []PlanStart{{URL: "http://a.test/", Bare: true}},
		Settings: map[string][]string{"max-urls": {"50"}, "header": {"X: \xff\ufffd<&"}, "exclude": nil, "include": {}}}
	if err := plan.Write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(dir.Plan())
	if err != nil {
		t.Fatal(err)
	}
	want, err := ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	want.Checksum = ""
	refused := 0
	for i := range 8 * len(text) {
		flipped := bytes.Clone(text)
		flipped[i/8] ^= 1 << (i % 8)
		if err := os.WriteFile(dir.Plan(), flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadPlan(dir)
		if err != nil {
			refused++
			if !isCorrupt(err) || !strings.Contains(err.Error(), dir.Plan()) {
				t.Errorf("byte %d, bit %d: %v", i/8, i%8, err)
			}
			continue
		}
		got.Checksum = ""
		if !reflect.DeepEqual(got, want) {
			t.Errorf("byte %d, bit %d: got %+v", i/8, i%8, got)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// A plan of a later version, which has fields that this one does not know, is not damaged.
func TestPlanOfALaterVersion(t *testing.T) {
	t.Parallel()
	text := `{"schema_version": 9, "start_urls": [{"url": "http://a.test/"}], "later": 1, "checksum": "01234567"}`
	if _, err := DecodePlan([]byte(text), "crawl.json"); err == nil || isCorrupt(err) ||
		!strings.Contains(err.Error(), "version 9 is newer than this program knows") {
		t.Errorf("got %v", err)
	}
}

func isCorrupt(err error) bool {
	_, ok := errors.AsType[*state.CorruptError](err)
	return ok
}

// A plan without a checksum is that of an earlier version; one without content is refused.
func TestPlanWithoutAChecksum(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(dir.Plan(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"schema_version": 1, "start_urls": [{"url": "http://a.test/"}], "settings": {"max-urls": ["7"]}}`)
	if plan, err := ReadPlan(dir); err != nil || plan.Settings["max-urls"][0] != "7" {
		t.Errorf("got %+v, %v", plan, err)
	}
	for _, text := range []string{"", "{}", `{"schema_version": 1}`, "\x00\x00\x00\x00"} {
		write(text)
		if _, err := ReadPlan(dir); !isCorrupt(err) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
