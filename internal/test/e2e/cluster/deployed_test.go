//go:build cluster

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/pgtest"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A container is a machine of a file in deploy.
type container struct {
	Command     []string
	Environment map[string]string
	Healthcheck struct{ Test []string }
}

// The containers of deploy/compose/compose.yaml, as processes with their commands, their environment and their health
// check, crawl a site over a database that is made as that of the file. What differs is where the database, the web and
// the data are, and the port of the metrics: the processes share a machine.
func TestComposedCluster(t *testing.T) {
	onlyPostgres(t)
	t.Parallel()
	web := deployedWeb(t)
	var file struct{ Services map[string]container }
	text := regexp.MustCompile(`\$\{START_URL:-[^}]*\}`).ReplaceAllLiteralString(deployedFile(t, "compose/compose.yaml"),
		"http://example.com/")
	text = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`).ReplaceAllString(text, "$1")
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	database := file.Services["database"].Environment
	server := ownServer(t)
	query(t, server.URL("postgres"), fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN PASSWORD '%s'",
		database["POSTGRES_USER"], database["POSTGRES_PASSWORD"]))
	query(t, server.URL("postgres"), "CREATE DATABASE "+database["POSTGRES_DB"])
	port := fmt.Sprintf("@127.0.0.1:%d/", proxyTo(t, server).Port())

	f := fleetOf(t, web)
	for _, name := range []string{"machine1", "machine2", "machine3"} {
		c := file.Services[name]
		if !strings.Contains(c.Environment["MAPWRIGHT_CLUSTER"], "@database/") {
			t.Fatalf("%s is not at the database: %v", name, c.Environment)
		}
		c.Environment["MAPWRIGHT_CLUSTER"] = strings.Replace(c.Environment["MAPWRIGHT_CLUSTER"], "@database/", port, 1)
		f.start(c)
	}
	f.check()
	web.Release()
	f.complete()
}

// The machines of deploy/kubernetes/cluster.yaml wait for a crawl, and work on the one that the Job begins.
func TestClusterOfKubernetes(t *testing.T) {
	onlyPostgres(t)
	t.Parallel()
	web := deployedWeb(t)
	server := ownServer(t)
	query(t, server.URL("postgres"), "CREATE ROLE mapwright LOGIN PASSWORD 'PASSWORD'")
	query(t, server.URL("postgres"), "CREATE DATABASE crawls")
	query(t, server.URL("crawls"), "CREATE SCHEMA mapwright AUTHORIZATION mapwright")
	text := deployedFile(t, "kubernetes/cluster.yaml")
	address := regexp.MustCompile(`postgres://[^']*`).FindString(text)
	address = strings.Replace(address, "@db.example/", fmt.Sprintf("@127.0.0.1:%d/", proxyTo(t, server).Port()), 1)

	f := fleetOf(t, web)
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var manifest struct {
			Kind string
			Spec struct {
				Replicas int
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		if err := d.Decode(&manifest); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		c := container{Environment: map[string]string{"MAPWRIGHT_CLUSTER": address}}
		for _, arg := range manifest.Spec.Template.Spec.Containers[0].Args {
			c.Command = append(c.Command, strings.NewReplacer("https://", "http://", "0.0.0.0:9090",
				"127.0.0.1:0").Replace(arg))
		}
		for range max(manifest.Spec.Replicas, 1) {
			f.start(c)
		}
	}
	if len(f.machines) != 4 {
		t.Fatalf("%d machines", len(f.machines))
	}
	web.Release()
	f.complete()
}

// deployedWeb is a site whose pages wait until it is released.
func deployedWeb(t *testing.T) *testweb.Server {
	t.Helper()
	web := e2e.Serve(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6, HostName: "example.com"})
	web.Hold(0)
	return web
}

func deployedFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "deploy", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ownServer is a server for one test, whose roles have the names that a file gives them.
func ownServer(t *testing.T) *pgtest.Server {
	t.Helper()
	server, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Stop(), server.Remove()); err != nil {
			t.Error(err)
		}
	})
	return server
}

// A composition is a fleet whose machines are containers of a file.
type composition struct {
	t        *testing.T
	settings string // a file with where the web is
	machines []*e2e.Process
	checks   []e2e.Invocation // the health check of each machine, without the server's address
	dirs     []string
}

func fleetOf(t *testing.T, web *testweb.Server) *composition {
	t.Helper()
	f := &composition{t: t, settings: filepath.Join(t.TempDir(), "settings.yaml")}
	network := fmt.Sprintf("resolve: ['*:80:%s']\nmin_delay_ms: 0\nmax_delay_ms: 0\n", web.Addr())
	if err := os.WriteFile(f.settings, []byte(network), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// start starts a container with the environment of the image.
func (f *composition) start(c container) {
	f.t.Helper()
	dir := f.t.TempDir()
	env := []string{"MAPWRIGHT_DATA_DIR=" + dir, "MAPWRIGHT_CONFIG=" + f.settings}
	for name, value := range c.Environment {
		if name == "MAPWRIGHT_METRICS_ADDR" {
			_, port, _ := strings.Cut(value, ":")
			if want := "http://127.0.0.1:" + port; c.Environment["MAPWRIGHT_SERVER"] != want {
				f.t.Errorf("the health check asks %s, want %s", c.Environment["MAPWRIGHT_SERVER"], want)
			}
			value = "127.0.0.1:0"
		}
		env = append(env, name+"="+value)
	}
	f.machines = append(f.machines, e2e.Invocation{Args: c.Command, Env: env}.Start(f.t))
	f.dirs = append(f.dirs, dir)
	if test := c.Healthcheck.Test; len(test) > 2 {
		f.checks = append(f.checks, e2e.Invocation{Args: test[2:]})
	}
}

// check waits until every machine is well: it is not before it works on the crawl.
func (f *composition) check() {
	f.t.Helper()
	address := regexp.MustCompile(`address=(http://127\.0\.0\.1:\d+)`)
	if len(f.checks) != len(f.machines) {
		f.t.Errorf("%d health checks for %d machines", len(f.checks), len(f.machines))
	}
	for i, check := range f.checks {
		p := f.machines[i]
		var found []string
		p.Until("it serves metrics", func() bool {
			found = address.FindStringSubmatch(p.Err.String())
			return found != nil
		})
		check.Env, check.Quiet = []string{"MAPWRIGHT_SERVER=" + found[1]}, true
		p.Until("it is well", func() bool { return check.Run(f.t).Code == 0 })
	}
}

// complete wants all machines to end well, and one of them to have the whole map.
func (f *composition) complete() {
	f.t.Helper()
	for _, p := range f.machines {
		if got := p.Wait(); got.Code != 0 {
			f.t.Errorf("a machine ended with status %d: %s", got.Code, got.Stderr)
		}
	}
	wrote := slices.DeleteFunc(slices.Clone(f.dirs), func(dir string) bool {
		text, err := os.ReadFile(filepath.Join(dir, "sitemap.jsonl"))
		return err != nil || bytes.Count(text, []byte("\n")) != 20
	})
	if len(wrote) != 1 {
		f.t.Errorf("%d machines wrote the map", len(wrote))
	}
}
