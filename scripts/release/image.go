package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user of the program in a container. It has no rights but on /data and /tmp.
const imageUser = 65532

// writeImage writes a container image for the Linux targets, as one tar file that is an OCI layout, and for the
// processor of this machine what "docker load" reads. The image has the program, the certificates of authorities that
// Mozilla trusts without conditions, and nothing else: time zones are in the program.
func writeImage(path string, chosen []target) error {
	r, err := newRelease()
	if err != nil {
		return err
	}
	img := &image{time: r.time}
	var manifests []descriptor
	for _, t := range chosen {
		if t.system != "linux" {
			continue
		}
		fmt.Println("building", t)
		b, err := r.build(t)
		if err != nil {
			return err
		}
		m, err := img.add(b)
		if err != nil {
			return err
		}
		manifests = append(manifests, m)
	}
	if len(manifests) == 0 {
		return fmt.Errorf("an image needs a Linux target, not %v", chosen)
	}
	if err := img.finish(manifests); err != nil {
		return err
	}
	data, err := tarOf(img.files, r.time)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// A descriptor names a blob, as in the OCI image format.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (d descriptor) path() string { return "blobs/sha256/" + d.Digest[len("sha256:"):] }

// An image collects the files of an image layout.
type image struct {
	time   time.Time
	files  []file
	docker []map[string]any // of manifest.json
}

func (img *image) blob(kind string, data []byte) descriptor {
	d := descriptor{MediaType: "application/vnd.oci.image." + kind, Digest: "sha256:" + hexSum(data), Size: len(data)}
	if !slices.ContainsFunc(img.files, func(f file) bool { return f.name == d.path() }) {
		img.files = append(img.files, file{d.path(), 0o644, data})
	}
	return d
}

func (img *image) json(kind string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return img.blob(kind, data), err
}

// add adds the layer, the configuration and the manifest of a target.
func (img *image) add(b *build) (descriptor, error) {
	layer, err := imageLayer(b)
	if err != nil {
		return descriptor{}, err
	}
	packed, err := gzipOf(layer)
	if err != nil {
		return descriptor{}, err
	}
	created := img.time.Format(time.RFC3339)
	config, err := img.json("config.v1+json", map[string]any{
		"created": created, "os": "linux", "architecture": b.processor,
		"config": map[string]any{
			"User":       fmt.Sprintf("%d:%d", imageUser, imageUser),
			"Entrypoint": []string{"/usr/bin/mapwright"},
			"Env":        []string{"PATH=/usr/bin", "HOME=/data", "MAPWRIGHT_DATA_DIR=/data"},
			"WorkingDir": "/data",
			"Volumes":    map[string]any{"/data": struct{}{}},
			"StopSignal": "SIGTERM",
			// An extension of Docker to the format; others ignore it.
			"Healthcheck": map[string]any{"Test": []string{"CMD", "/usr/bin/mapwright", "remote", "health"},
				"Interval": 30 * time.Second, "Timeout": 10 * time.Second, "StartPeriod": 30 * time.Second},
			"Labels": map[string]string{
				"org.opencontainers.image.title":    "mapwright",
				"org.opencontainers.image.version":  b.version,
				"org.opencontainers.image.source":   homepage,
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hexSum(layer)}},
		"history": []map[string]string{{"created": created, "created_by": "scripts/release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	content := img.blob("layer.v1.tar+gzip", packed)
	manifest, err := img.json("manifest.v1+json", map[string]any{"schemaVersion": 2,
		"mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []descriptor{content}})
	manifest.Platform = map[string]string{"os": "linux", "architecture": b.processor}
	if b.processor == runtime.GOARCH {
		img.docker = []map[string]any{{"Config": config.path(), "Layers": []string{content.path()},
			"RepoTags": []string{"mapwright:" + b.version, "mapwright:latest"}}}
	}
	return manifest, err
}

// finish adds what leads to the manifests. If there are several, the tag leads to an index over them.
func (img *image) finish(manifests []descriptor) error {
	top := manifests[0]
	if len(manifests) > 1 {
		var err error
		top, err = img.json("index.v1+json", map[string]any{"schemaVersion": 2,
			"mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests})
		if err != nil {
			return err
		}
	}
	// Podman names the image after this; it takes an archive with one name only.
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": "mapwright:latest"}
	for _, f := range []struct {
		name string
		v    any
	}{
		{"oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}},
		{"index.json", map[string]any{"schemaVersion": 2, "manifests": []descriptor{top}}},
		{"manifest.json", img.docker},
	} {
		data, err := json.Marshal(f.v)
		if err != nil {
			return err
		}
		img.files = append(img.files, file{f.name, 0o644, data})
	}
	return nil
}

// authorities are certificates in the form and place in which the program looks for those of the system. They come with
// the module of the version that go.mod names, not from this machine: the bytes of an image do not depend on it.
func authorities() []byte {
	var out []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return out
}

// imageLayer is the root directory of a container.
func imageLayer(b *build) ([]byte, error) {
	account := fmt.Sprintf("mapwright:x:%d:%d::/data:/sbin/nologin\n", imageUser, imageUser)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range []struct {
		name  string
		mode  int64
		owner int
		data  []byte
	}{
		{"data/", 0o700, imageUser, nil},
		{"etc/", 0o755, 0, nil},
		{"etc/group", 0o644, 0, fmt.Appendf(nil, "mapwright:x:%d:\n", imageUser)},
		{"etc/passwd", 0o644, 0, []byte(account)},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, authorities()},
		{"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil},
		{"usr/bin/", 0o755, 0, nil},
		{"usr/bin/mapwright", 0o755, 0, b.program},
		{"usr/share/", 0o755, 0, nil},
		{"usr/share/doc/", 0o755, 0, nil},
		{"usr/share/doc/mapwright/", 0o755, 0, nil},
		{"usr/share/doc/mapwright/copyright", 0o644, 0, notices(b.modules)},
	} {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner,
			Size: int64(len(e.data)), ModTime: b.time, Format: tar.FormatUSTAR}
		if e.name[len(e.name)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
