package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// A distribution is a family of Linux systems.
type distribution int

const (
	debian distribution = iota
	redHat
)

const (
	summary     = "crawls web sites and writes exact maps of them"
	description = "Mapwright crawls a web site, or many, and writes one line for each URL that it\n" +
		"found, XML sitemaps, and a report of what is wrong with the site. It can be\n" +
		"stopped at any moment and goes on where it was. It also runs as a service\n" +
		"with a queue, accounts, schedules and pages for browsers."
	homepage = "https://github.com/mapwright/mapwright"
)

// A pack is what a package of a distribution is made of.
type pack struct {
	version   string
	processor string // as the go command names it
	time      time.Time
	files     []file
}

// packageOf lays out the files of a package. It has no scripts: the service is there, and the administrator starts it.
func (b *build) packageOf(d distribution) *pack {
	zsh := map[distribution]string{debian: "vendor-completions", redHat: "site-functions"}[d]
	p := &pack{version: b.packageVersion(), processor: b.processor, time: b.time}
	add := func(name string, data []byte) { p.files = append(p.files, file{name, 0o644, data}) }
	p.files = append(p.files, file{"usr/bin/mapwright", 0o755, b.program})
	for _, f := range b.completions {
		switch strings.TrimPrefix(f.name, "mapwright.") {
		case "bash":
			add("usr/share/bash-completion/completions/mapwright", f.data)
		case "fish":
			add("usr/share/fish/vendor_completions.d/mapwright.fish", f.data)
		case "zsh":
			add("usr/share/zsh/"+zsh+"/_mapwright", f.data)
		}
	}
	for _, f := range b.units {
		add("usr/lib/systemd/system/"+f.name, f.data)
	}
	for _, f := range b.documents {
		if f.name == "LICENSE" {
			f.name = "copyright"
			f.data = append(append(bytes.Clone(f.data), '\n'), notices(b.modules)...)
		}
		add("usr/share/doc/mapwright/"+f.name, f.data)
	}
	for _, f := range b.manual {
		packed, err := gzipOf(f.data)
		if err != nil {
			panic(err) // writing to memory does not fail
		}
		add("usr/share/man/man1/"+f.name+".gz", packed)
	}
	if d == redHat { // where a folder that no package has stays when the package goes
		p.files = append(p.files, file{"usr/share/doc/mapwright", fs.ModeDir | 0o755, nil})
	}
	return p
}

// debPackage makes a package for Debian: an ar archive of a version, a tar file about the package, and a tar file of
// its files.
func debPackage(p *pack) ([]byte, error) {
	size := 0
	var sums bytes.Buffer
	for _, f := range p.files {
		size += len(f.data)
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.data), f.name)
	}
	about := fmt.Sprintf(`Package: mapwright
Version: %s
Architecture: %s
Maintainer: The Mapwright authors <mapwright@users.noreply.github.com>
Installed-Size: %d
Recommends: ca-certificates
Section: web
Priority: optional
Homepage: %s
Description: %s
 %s
`, p.version, p.processor, (size+1023)/1024, homepage, summary, strings.ReplaceAll(description, "\n", "\n "))
	control, err := tarOf([]file{{"./control", 0o644, []byte(about)}, {"./md5sums", 0o644, sums.Bytes()}}, p.time)
	if err != nil {
		return nil, err
	}
	data, err := tarOf(inFolder(".", p.files), p.time)
	if err != nil {
		return nil, err
	}
	deb := bytes.NewBufferString("!<arch>\n")
	for _, member := range []struct {
		name string
		data []byte
		pack bool
	}{{"debian-binary", []byte("2.0\n"), false}, {"control.tar.gz", control, true}, {"data.tar.gz", data, true}} {
		if member.pack {
			if member.data, err = gzipOf(member.data); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(deb, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, p.time.Unix(), 0, 0, "100644",
			len(member.data))
		deb.Write(member.data)
		if len(member.data)%2 == 1 {
			deb.WriteByte('\n')
		}
	}
	return deb.Bytes(), nil
}
