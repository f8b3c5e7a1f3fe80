package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var example = &pack{version: "1.2.3~rc.1", processor: "amd64", time: time.Unix(1e9, 0), files: []file{
	{"usr/bin/mapwright", 0o755, []byte("#!/bin/sh\n")},
	{"usr/share/doc/mapwright/README.md", 0o644, []byte("odd")},
}}

// A package for Debian has the members that dpkg reads, in their order, and the files with their modes.
func TestDebPackage(t *testing.T) {
	deb, err := debPackage(example)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := debPackage(example); !bytes.Equal(deb, again) {
		t.Error("two packages of the same files differ")
	}
	rest, ok := bytes.CutPrefix(deb, []byte("!<arch>\n"))
	if !ok {
		t.Fatal("not an ar archive")
	}
	var names []string
	members := map[string][]byte{}
	for len(rest) > 0 {
		name := strings.TrimSpace(string(rest[:16]))
		size := 0
		for _, c := range strings.TrimSpace(string(rest[48:58])) {
			size = size*10 + int(c-'0')
		}
		names = append(names, name)
		members[name] = rest[60 : 60+size]
		rest = rest[60+size+size%2:]
	}
	if !slices.Equal(names, []string{"debian-binary", "control.tar.gz", "data.tar.gz"}) {
		t.Fatalf("members %q", names)
	}
	control := string(untar(t, members["control.tar.gz"])["./control"].data)
	for _, line := range []string{"Version: 1.2.3~rc.1", "Architecture: amd64", "Installed-Size: 1"} {
		if !strings.Contains(control, line+"\n") {
			t.Errorf("control has no line %q:\n%s", line, control)
		}
	}
	files := untar(t, members["data.tar.gz"])
	if f := files["./usr/bin/mapwright"]; f.mode != 0o755 || string(f.data) != "#!/bin/sh\n" {
		t.Errorf("the program is %v %q", f.mode, f.data)
	}
}

func untar(t *testing.T, packed []byte) map[string]file {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]file{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = file{h.Name, h.FileInfo().Mode().Perm(), data}
	}
}

// The headers of a package for RPM have the sizes that they say, and the region of each covers it. Where rpm is
// installed, it reads the package and finds its digests right.
func TestRPMPackage(t *testing.T) {
	withFolder := *example
	withFolder.files = append(slices.Clone(example.files), file{"usr/share/doc/mapwright", fs.ModeDir | 0o755, nil})
	rpm, err := rpmPackage(&withFolder)
	if err != nil {
		t.Fatal(err)
	}
	rest := rpm[rpmLeadSize:]
	for _, region := range []uint32{rpmSigTag, rpmMainTag} {
		number := func(at int) uint32 { return binary.BigEndian.Uint32(rest[at:]) }
		n, size := int(number(8)), int(number(12))
		store := 16 + 16*n
		trailer := store + int(number(24))
		if number(16) != region || number(trailer) != region || int32(number(trailer+8)) != int32(-16*n) {
			t.Fatalf("the region of header %d does not cover it", region)
		}
		if trailer+16 != store+size {
			t.Errorf("header %d has %d bytes of values and says %d", region, trailer+16-store, size)
		}
		rest = rest[(store+size+7)/8*8:]
		if region == rpmMainTag {
			break
		}
	}
	program, err := exec.LookPath("rpm")
	if err != nil {
		return // make release-check needs it, and installs a package
	}
	path := filepath.Join(t.TempDir(), "x.rpm")
	if err := os.WriteFile(path, rpm, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"-Kv --nosignature", "Payload SHA256 digest: OK"},
		{"-qlp --nosignature", "/usr/share/doc/mapwright/README.md"},
		{"-qp --nosignature", "mapwright-1.2.3~rc.1-1.x86_64"},
	} {
		out, err := exec.Command(program, append(strings.Fields(c.args), path)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("rpm %s: %v\n%s", c.args, err, out)
		}
	}
}

func TestIdentifyLicences(t *testing.T) {
	const bsd = "Redistribution and use in source and\n binary forms, with or without modification"
	const third = " may be used to endorse or promote products derived from this software without specific"
	for text, want := range map[string][]string{
		"Permission is hereby granted, free of charge, to any\nperson obtaining a copy of": {"MIT"},
		bsd:         {"BSD-2-Clause"},
		bsd + third: {"BSD-3-Clause"},
		"Apache License\n   Version 2.0, January 2004 ... " + bsd: {"Apache-2.0", "BSD-2-Clause"},
		"All rights reserved": nil,
	} {
		if got := identify([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, m := range []module{{path: "a"}, {path: "b", licences: []string{"MIT", "AGPL-3.0"}}} {
		if m.check() == nil {
			t.Errorf("%s with %q is accepted", m.path, m.licences)
		}
	}
}

func TestChooseTargets(t *testing.T) {
	if got, err := choose("linux/arm64,windows/amd64"); err != nil ||
		!slices.Equal(got, []target{{"linux", "arm64"}, {"windows", "amd64"}}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := choose("plan9/amd64"); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("a target that does not exist: %v", err)
	}
}

// An image layout leads from its index, and from manifest.json, to blobs that have the digests by which they are named.
func TestImageLayout(t *testing.T) {
	img := &image{time: example.time}
	r := &release{version: "1.2.3", time: example.time}
	var manifests []descriptor
	for _, processor := range []string{"amd64", "arm64"} {
		m, err := img.add(&build{r, target{"linux", processor}, []byte("program for " + processor), nil})
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, m)
	}
	if err := img.finish(manifests); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range img.files {
		if sum, isBlob := strings.CutPrefix(f.name, "blobs/sha256/"); isBlob && sum != hexSum(f.data) {
			t.Errorf("%s has another digest", f.name)
		}
		files[f.name] = f.data
	}
	named := regexp.MustCompile(`sha256:([0-9a-f]{64})","size"|blobs/sha256/([0-9a-f]{64})`)
	reached := 0
	var follow func(data []byte)
	follow = func(data []byte) {
		for _, found := range named.FindAllSubmatch(data, -1) {
			blob, there := files["blobs/sha256/"+string(found[1])+string(found[2])]
			if !there {
				t.Errorf("there is no blob %s%s", found[1], found[2])
				continue
			}
			reached++
			if bytes.HasPrefix(blob, []byte("{")) {
				follow(blob)
			}
		}
	}
	follow(files["index.json"])
	if reached != 1+2+2*2 { // an index, manifests, and of each a configuration and a layer
		t.Errorf("%d blobs are reached from index.json", reached)
	}
	follow(files["manifest.json"])
	layer, err := imageLayer(&build{r, target{"linux", "amd64"}, []byte("program"), nil})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := gzipOf(layer)
	if err != nil {
		t.Fatal(err)
	}
	root := untar(t, packed)
	if n := bytes.Count(root["etc/ssl/certs/ca-certificates.crt"].data, []byte("BEGIN CERTIFICATE")); n < 50 {
		t.Errorf("%d authorities", n)
	}
	if f := root["usr/bin/mapwright"]; f.mode != 0o755 || string(f.data) != "program" {
		t.Errorf("the program is %v %q", f.mode, f.data)
	}
}
