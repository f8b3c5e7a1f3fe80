package view

import (
	"bytes"
	"os"
	"testing"
)

func TestAble(t *testing.T) {
	for _, tt := range []struct {
		environ []string
		want    Screen
	}{
		{nil, Screen{Color: true}},
		{[]string{"LANG=de_DE.UTF-8"}, Screen{Color: true, Unicode: true}},
		{[]string{"LANG=de_DE.UTF-8", "LC_ALL=C"}, Screen{Color: true}},
		{[]string{"LANG=C", "LC_CTYPE=C.utf8"}, Screen{Color: true, Unicode: true}},
		{[]string{"NO_COLOR=1"}, Screen{}},
		{[]string{"NO_COLOR="}, Screen{Color: true}},
		{[]string{"NO_COLOR=1", "NO_COLOR="}, Screen{Color: true}},
	} {
		if got := Able(tt.environ); got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.environ, got, tt.want)
		}
	}
}

func TestCanDrawOnlyOnATerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	environ := []string{"TERM=xterm"}
	if _, can := CanDraw(f, environ); can {
		t.Error("a file can be drawn on")
	}
	if _, can := CanDraw(&bytes.Buffer{}, environ); can {
		t.Error("memory can be drawn on")
	}
}
