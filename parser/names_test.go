package parser

import (
	"bytes"
	"testing"
)

func TestNames(t *testing.T) {
	n := newNames(false)
	count := 0
	for _, table := range []*nameTable{&n.elements, &n.attrs} {
		for _, s := range table {
			if s.name == "" {
				continue
			}
			count++
			for _, name := range [][]byte{[]byte(s.name), bytes.ToUpper([]byte(s.name))} {
				if v, ok := table.find(name, foldName(name)); !ok || v != s.value {
					t.Errorf("%s is %d, %v, want %d", name, v, ok, s.value)
				}
			}
			// A name that differs in one byte is not taken for it.
			for i := range len(s.name) {
				for c := range 256 {
					name := []byte(s.name)
					name[i] = byte(c)
					v, ok := table.find(name, foldName(name))
					if same := equalFold(name, s.name); ok != same && !known(table, name) || same && v != s.value {
						t.Errorf("%q is taken for %s: %v", name, s.name, ok)
					}
				}
			}
			for _, name := range []string{"x" + s.name, s.name + "x", "prefix--" + s.name, s.name[1:]} {
				if _, ok := table.find([]byte(name), foldName([]byte(name))); ok && !known(table, []byte(name)) {
					t.Errorf("%q is found", name)
				}
			}
		}
	}
	if count < 80 {
		t.Errorf("only %d names are known", count)
	}
}

func known(table *nameTable, name []byte) bool {
	for _, s := range table {
		if s.name != "" && equalFold(name, s.name) {
			return true
		}
	}
	return false
}
