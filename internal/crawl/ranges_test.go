package crawl

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/traps"
)

// What the table of settings takes, the parts of a run take too: both ends of the range of every number, in each
// profile.
func TestRangesAreAccepted(t *testing.T) {
	numbers := 0
	for _, profile := range config.Profiles() {
		for _, info := range config.Info(config.Defaults(config.Polite)) {
			if info.Range == nil {
				continue
			}
			numbers++
			for _, end := range []float64{info.Range.AtLeast, *info.Range.AtMost} {
				s := config.Defaults(config.Profile(profile))
				for _, e := range s.Table() {
					if config.FileKey(e.Name) == info.Name {
						if err := e.Value.Set(strconv.FormatFloat(end, 'f', -1, 64)); err != nil {
							t.Fatalf("%s: %v", info.Name, err)
						}
					}
				}
				s.MaxDelayMS = max(s.MaxDelayMS, s.MinDelayMS) // config.Load refuses the contrary
				if err := frontierOptions(s).Validate(); err != nil {
					t.Errorf("%s %s = %v: %v", profile, info.Name, end, err)
				}
				client, err := NewFetcher(s, nil)
				if err != nil {
					t.Errorf("%s %s = %v: %v", profile, info.Name, end, err)
					continue
				}
				if err := client.Close(); err != nil {
					t.Error(err)
				}
				for name, d := range map[string]time.Duration{"step": paceConfig(s).Step,
					"backoff": paceConfig(s).MaxBackoff, "governor": newPermits(s, nil, nil).high} {
					if d < 0 {
						t.Errorf("%s %s = %v: the %s overflows: %v", profile, info.Name, end, name, d)
					}
				}
			}
		}
	}
	if numbers < 3*31 {
		t.Errorf("only %d numbers were tried", numbers)
	}
}

// What config says of the settings that became constants is what the constants are.
func TestConstantsOfRemovedSettings(t *testing.T) {
	for name, value := range map[string]int{
		"max-url-length": traps.MaxURLLength, "trap-repeats": traps.MaxRepeats, "trap-params": traps.MaxParams,
		"trap-variants": traps.MaxVariants, "trap-reorders": traps.MaxReorders, "trap-values": traps.MinValues, "trap-barren": traps.MaxBarren,
	} {
		if said, want := config.Removed(name)+",", fmt.Sprintf("always %d,", value); !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", name, said, want)
		}
	}
}
