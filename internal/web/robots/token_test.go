package robots

import "testing"

// TestTokensAreComparedWhole makes sure that a group governs only the crawler that it names.
func TestTokensAreComparedWhole(t *testing.T) {
	for _, tt := range []struct {
		line, agent string
		governed    bool
	}{
		{"crawler1", "crawler1", true},
		{"crawler1", "CRAWLER1", true},
		{"crawler1", "crawler3", false},
		{"crawler1", "crawler", false},
		{"crawler", "crawler1", false},
		{"crawler10", "crawler1", false},
		{"Rule1TestBot", "Rule2TestBot", false},
		{"Rule1TestBot", "Rule1TestBot", true},
		{"360Spider", "360Spider", true},
		{"360Spider", "Spider", false},
		{"360Spider/2.1 (compatible)", "360spider", true},
		{"360", "360", true},
		{"a_1-b2", "a_1-b2", true},
		{"a_1-b2", "a_1-b3", false},
		{"crawler1/2", "crawler1", true},
		{"crawler1 other", "crawler1", true},
	} {
		rules := Parse([]byte("User-agent: " + tt.line + "\nDisallow: /\n")).Agent(tt.agent)
		if got := !rules.Match("/x").Allowed; got != tt.governed {
			t.Errorf("User-agent: %s governs %s: %v, want %v", tt.line, tt.agent, got, tt.governed)
		}
	}
}
