package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const mainPackage = "./cmd/mapwright"

// A target is a system and a processor, as the go command names them.
type target struct{ system, processor string }

func (t target) String() string { return t.system + "/" + t.processor }

func (t target) binary() string {
	if t.system == "windows" {
		return "mapwright.exe"
	}
	return "mapwright"
}

// environment is that of go commands for the target. It fixes what would change the bytes of a build.
func (t target) environment() []string {
	return append(os.Environ(), "GOOS="+t.system, "GOARCH="+t.processor, "CGO_ENABLED=0", "GOAMD64=v1",
		"GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOTOOLCHAIN=local")
}

// A file is part of an archive or a package.
type file struct {
	name string // with slashes, without one at the beginning
	mode fs.FileMode
	data []byte
}

// A release is what all targets have in common.
type release struct {
	version string
	time    time.Time // of the commit

	manual, completions, documents, units []file
}

// newRelease builds the program for this machine too, and lets it write its manual pages and completions.
func newRelease() (*release, error) {
	seconds, err := output(exec.Command("git", "log", "-1", "--format=%ct"))
	if err != nil {
		return nil, err
	}
	committed, err := strconv.ParseInt(strings.TrimSpace(string(seconds)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("time of the commit: %w", err)
	}
	work, err := os.MkdirTemp("", "mapwright-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	r := &release{time: time.Unix(committed, 0).UTC()}
	program := filepath.Join(work, "mapwright")
	if err := compile(target{runtime.GOOS, runtime.GOARCH}, program); err != nil {
		return nil, err
	}
	text, err := output(exec.Command(program, "version", "--json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &struct{ Version *string }{&r.version}); err != nil {
		return nil, fmt.Errorf("version of the program: %w", err)
	}
	if _, err := output(exec.Command(program, "man", filepath.Join(work, "man"))); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(work, "man", "*.1"))
	if err != nil {
		return nil, err
	}
	for _, path := range pages {
		if r.manual, err = appendFile(r.manual, path, filepath.Base(path)); err != nil {
			return nil, err
		}
	}
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		text, err := output(exec.Command(program, "completion", shell))
		if err != nil {
			return nil, err
		}
		r.completions = append(r.completions, file{"mapwright." + shell, 0o644, text})
	}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		if r.documents, err = appendFile(r.documents, name, name); err != nil {
			return nil, err
		}
	}
	units, err := filepath.Glob("deploy/systemd/*.service")
	if err != nil {
		return nil, err
	}
	for _, path := range units {
		if r.units, err = appendFile(r.units, path, filepath.Base(path)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// packageVersion is the version in a form in which Debian and RPM order it: ~ is before nothing.
func (r *release) packageVersion() string { return strings.ReplaceAll(r.version, "-", "~") }

// A build is the program for one target.
type build struct {
	*release
	target
	program []byte
	modules []module
}

func (r *release) build(t target) (*build, error) {
	work, err := os.MkdirTemp("", "mapwright-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	path := filepath.Join(work, t.binary())
	if err := compile(t, path); err != nil {
		return nil, err
	}
	if t.system == "linux" {
		if err := checkStatic(path); err != nil {
			return nil, fmt.Errorf("%s: %w", t, err)
		}
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	modules, err := modulesOf(t)
	if err != nil {
		return nil, err
	}
	return &build{r, t, program, modules}, nil
}

// compile builds the program without symbols, and with the profile in default.pgo unless a flag says otherwise.
func compile(t target, path string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-pgo="+profile, "-ldflags=-s -w", "-o", path,
		mainPackage)
	cmd.Env = t.environment()
	_, err := output(cmd)
	return err
}

// checkStatic checks that a program for Linux needs no other files and has no symbols.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return errors.New("the program is not static")
		}
	}
	if f.Section(".symtab") != nil || f.Section(".debug_info") != nil {
		return errors.New("the program is not stripped")
	}
	return nil
}

// archive is the .tar.gz or, for Windows, the .zip of a target. Its files are in one folder.
func (b *build) archive(base string) (name string, data []byte, err error) {
	files := []file{{b.binary(), 0o755, b.program}, {"LICENSES.txt", 0o644, notices(b.modules)}}
	files = append(files, b.documents...)
	files = append(files, inFolder("man/man1", b.manual)...)
	files = append(files, inFolder("completions", b.completions)...)
	files = inFolder(base, files)
	if b.system == "windows" {
		data, err = zipOf(files, b.time)
		return base + ".zip", data, err
	}
	data, err = tarOf(files, b.time)
	if err != nil {
		return "", nil, err
	}
	data, err = gzipOf(data)
	return base + ".tar.gz", data, err
}

// checksums is a list that sha256sum --check reads.
func checksums(dir string, names []string) ([]byte, error) {
	var sums bytes.Buffer
	slices.Sort(names)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	return sums.Bytes(), nil
}

// output runs a command. Its error has what the command said.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

func appendFile(files []file, path, name string) ([]file, error) {
	data, err := os.ReadFile(path)
	return append(files, file{name, 0o644, data}), err
}

func inFolder(folder string, files []file) []file {
	var moved []file
	for _, f := range files {
		f.name = folder + "/" + f.name
		moved = append(moved, f)
	}
	return moved
}

// gzipOf compresses without a name and a time.
func gzipOf(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(data)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}
