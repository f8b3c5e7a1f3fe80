package page

import (
	"testing"

	"github.com/mapwright/mapwright/parser"
)

func TestFragments(t *testing.T) {
	p, err := parser.New(parser.Options{IDs: true})
	if err != nil {
		t.Fatal(err)
	}
	var pg parser.Page
	const body = `<!doctype html><html id=root><body><section ID="part"><p id=part>twice</p></section><a name="old">x</a>
		<div name="no" id="a b">y</div><span id="caf&eacute;">z</span><svg><g id=shape></g></svg>
		<template><i id=hidden></i></template><script>"<b id=script>"</script><h2 id="100%">h</h2><p id>`
	if err := p.Parse(&pg, parser.Input{Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	var f Facts
	f.TakePage(&pg, pg.Modified)
	stored, err := Decode(f.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	ids := NewIDs(stored.IDs)
	for href, lacks := range map[string]bool{
		"": false, "#": false, "#top": false, "#TOP": false, "/x": false, "#/route": false, "#!route": false,
		"#:~:text=word": false, "#part:~:text=word": false, "/x#part": false, " #part ": false, "#root": false,
		"#old": false, "#a%20b": false, "#caf%C3%A9": false, "#caf%c3%a9": false, "#café": false, "#shape": false,
		"#pa\nrt": false, "#100%": false, "#100%25": false,
		"#Part": true, "#no": true, "#hidden": true, "#script": true, "#missing:~:text=word": true, "#caf%C3": true,
		"#%": true,
	} {
		fragment := Fragment(href)
		if got := fragment != "" && ids.Lacks(fragment); got != lacks {
			t.Errorf("%q: %q is missing: %t", href, fragment, got)
		}
	}
	if NewIDs(nil).Lacks("part") {
		t.Error("a fragment is missing on a page whose ids are not known")
	}
	f = Facts{}
	if err := p.Parse(&pg, parser.Input{Body: []byte("<p>no ids")}); err != nil {
		t.Fatal(err)
	}
	if f.TakePage(&pg, pg.Modified); !NewIDs(f.IDs).Lacks("part") {
		t.Error("no fragment is missing on a page without ids")
	}
}
