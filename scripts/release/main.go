// Command release makes the files of a release from the commit that is checked out: binaries in archives, packages for
// Debian and RPM, lists of what is in them (SPDX), checksums, and a container image. It is run from the root of a
// checkout. Two runs over the same commit with the same version of Go make the same bytes. It uses only the standard
// library, the go command and git.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Targets are the systems and processors of a release.
var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
	{"windows", "arm64"},
}

// profile is the -pgo flag of the go command.
var profile string

func main() {
	only := flag.String("targets", "", "comma-separated `list` such as linux/amd64, instead of all")
	flag.StringVar(&profile, "pgo", "auto", "off builds without the profile, which takes a third of the time")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), `usage: go run ./scripts/release [-pgo off] [-targets LIST] build DIRECTORY
       go run ./scripts/release [-pgo off] [-targets LIST] image FILE.tar
       go run ./scripts/release [-targets LIST] licences`)
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*only, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(only string, args []string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 2 && args[0] == "build":
		return writeRelease(args[1], chosen)
	case len(args) == 2 && args[0] == "image":
		return writeImage(args[1], chosen)
	case len(args) == 1 && args[0] == "licences":
		return printLicences(chosen)
	}
	flag.Usage()
	return fmt.Errorf("unknown command %q", strings.Join(args, " "))
}

// choose returns the targets of a list, or all.
func choose(list string) ([]target, error) {
	if list == "" {
		return targets, nil
	}
	var chosen []target
	for name := range strings.SplitSeq(list, ",") {
		system, processor, _ := strings.Cut(name, "/")
		t := target{system, processor}
		if !slices.Contains(targets, t) {
			return nil, fmt.Errorf("%q is not a target of releases, which are %v", name, targets)
		}
		chosen = append(chosen, t)
	}
	return chosen, nil
}

// writeRelease builds every target and writes its files, and a list of their checksums, into a directory.
func writeRelease(dir string, chosen []target) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	r, err := newRelease()
	if err != nil {
		return err
	}
	var names []string
	write := func(name string, data []byte, err error) error {
		if err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		names = append(names, name)
		return os.WriteFile(filepath.Join(dir, name), data, 0o644)
	}
	for _, t := range chosen {
		fmt.Println("building", t)
		b, err := r.build(t)
		if err != nil {
			return err
		}
		base := fmt.Sprintf("mapwright_%s_%s_%s", r.version, t.system, t.processor)
		list, err := b.bill()
		if err := write(base+".spdx.json", list, err); err != nil {
			return err
		}
		name, data, err := b.archive(base)
		if err := write(name, data, err); err != nil {
			return err
		}
		if t.system != "linux" {
			continue
		}
		data, err = debPackage(b.packageOf(debian))
		if err := write(fmt.Sprintf("mapwright_%s_%s.deb", r.packageVersion(), t.processor), data, err); err != nil {
			return err
		}
		data, err = rpmPackage(b.packageOf(redHat))
		if err := write(fmt.Sprintf("mapwright-%s-1.%s.rpm", r.packageVersion(), rpmProcessors[t.processor]), data,
			err); err != nil {
			return err
		}
	}
	sums, err := checksums(dir, names)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums, 0o644)
}
