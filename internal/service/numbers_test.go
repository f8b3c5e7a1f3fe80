package service

import (
	"encoding/json"
	"testing"
)

// TestPlanLimitsEveryFormOfANumber checks that a plan's limit of pages holds however the number is written.
func TestPlanLimitsEveryFormOfANumber(t *testing.T) {
	t.Parallel()
	p := &Plan{Name: "small", MaxURLs: 100}
	for text, refused := range map[string]bool{
		`100`: false, `"1_00"`: false, `"many"`: false, // that it is no number is said elsewhere
		`101`: true, `"101"`: true, `"1_000"`: true, `"1,000"`: true, `"99999999999999999999"`: true,
	} {
		if faults := p.refuse(map[string]json.RawMessage{"max_urls": json.RawMessage(text)}); (len(faults) > 0) != refused {
			t.Errorf("max_urls %s: %v", text, faults)
		}
	}
}
