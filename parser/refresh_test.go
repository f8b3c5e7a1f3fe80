package parser

import "testing"

func TestRefreshURL(t *testing.T) {
	for _, tt := range []struct{ content, want string }{
		{"0;url=x", "x"}, {"0; url = 'x' y", "x"}, {"0;URL=\"x", "x"}, {" 5 , uRl=x ", "x"}, {"0 x", "x"}, {"0;x", "x"},
		{"0;'x'", "x"},
		{".5;url=x", "x"}, {"5.5.5;url=x", "x"}, {"0;u=x", "u=x"}, {"0;url", "url"}, {"0;urlx", "urlx"}, {"0;url=", ""},
		{"0;url=''", ""},
		{"", ""}, {"5", ""}, {"5;", ""}, {"x;url=y", ""}, {"-1;url=y", ""}, {"5x", ""}, {"0;;url=x", ";url=x"},
	} {
		if got := string(refreshURL([]byte(tt.content))); got != tt.want {
			t.Errorf("refresh %q leads to %q, want %q", tt.content, got, tt.want)
		}
	}
}
