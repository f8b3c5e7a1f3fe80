package sitemap

import (
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for name, good := range map[string]bool{
		"sitemap": true, "a": true, "1.b-c_d": true, strings.Repeat("a", 50): true, "a.xml.b": true,
		"": false, strings.Repeat("a", 51): false, "Map": false, "a/b": false, "..": false, ".a": false, "-a": false,
		"_a": false, "a b": false, "é": false, "a\n": false, "a.xml": false, "a.xml.gz": false, "a~b": false,
	} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}
