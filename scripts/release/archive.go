package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// tarOf makes a tar file. All files belong to root and have the same time; the folders that hold them come before them.
func tarOf(files []file, modified time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	header := func(name string, kind byte, mode fs.FileMode, size int) error {
		return w.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Mode: int64(mode.Perm()), Size: int64(size),
			ModTime: modified, Format: tar.FormatUSTAR})
	}
	for _, folder := range folders(files) {
		if err := header(folder+"/", tar.TypeDir, 0o755, 0); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		err := header(f.name, tar.TypeReg, f.mode, len(f.data))
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// folders are all folders that hold the files, each after the one that holds it.
func folders(files []file) []string {
	var all []string
	for _, f := range files {
		for end := strings.LastIndexByte(f.name, '/'); end > 0; end = strings.LastIndexByte(f.name[:end], '/') {
			if dir := f.name[:end]; dir != "." && !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	slices.Sort(all)
	return all
}

func zipOf(files []file, modified time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	var errs error
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: modified}
		h.SetMode(f.mode)
		part, err := w.CreateHeader(h)
		if err == nil {
			_, err = part.Write(f.data)
		}
		errs = errors.Join(errs, err)
	}
	err := errors.Join(errs, w.Close())
	return b.Bytes(), err
}
