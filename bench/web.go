package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Web is the synthetic web in a process of its own.
type Web struct {
	Addr    string
	Resolve string // the --resolve value that leads to it
	Start   string
	admin   string
	cmd     *exec.Cmd
	stdin   io.Closer
}

// StartWeb runs the testweb program at path.
func StartWeb(path string, s Scenario) (*Web, error) {
	cmd := exec.Command(path, "-hosts", strconv.Itoa(s.Hosts), "-pages", strconv.Itoa(s.Pages), "-page-size",
		strconv.Itoa(s.PageSize),
		"-links", strconv.Itoa(s.Links), "-cross-host", strconv.FormatFloat(s.Cross, 'f', -1, 64), "-admin-addr",
		"127.0.0.1:0")
	if s.Changes != "" {
		cmd.Args = append(cmd.Args, "-changes", s.Changes)
	}
	cmd.Args = append(cmd.Args, s.Web...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var hello struct {
		Addr, Admin, Resolve string
		StartURL             string `json:"start_url"`
	}
	if err := json.NewDecoder(stdout).Decode(&hello); err != nil {
		return nil, errors.Join(fmt.Errorf("start the web: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	return &Web{Addr: hello.Addr, Resolve: hello.Resolve, Start: hello.StartURL, admin: hello.Admin, cmd: cmd,
		stdin: stdin}, nil
}

// Close ends the process.
func (w *Web) Close() error { return errors.Join(w.stdin.Close(), w.cmd.Wait()) }

func (w *Web) get(path string, into any) error {
	resp, err := http.Get("http://" + w.admin + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}

// Stats are what the web saw since the last Reset.
func (w *Web) Stats() (b testweb.Stats, err error) { return b, w.get("/stats", &b) }

// CPU is the processor time that the web has used.
func (w *Web) CPU() (time.Duration, error) {
	var u testweb.Usage
	err := w.get("/usage", &u)
	return u.CPU, err
}

// Reset clears the statistics.
func (w *Web) Reset() error { return w.post("/reset") }

// SetGeneration lets the pages change that change in a generation.
func (w *Web) SetGeneration(n int) error { return w.post("/generation?n=" + strconv.Itoa(n)) }

func (w *Web) post(path string) error {
	resp, err := http.Post("http://"+w.admin+path, "", nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("POST %s to the web: %s", path, resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// WriteURLs writes all URLs that a correct crawl finds into a file, one a line.
func (w *Web) WriteURLs(path string) (n int, err error) {
	resp, err := http.Get("http://" + w.admin + "/expected?scope=any")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriter(file)
	dec := json.NewDecoder(resp.Body)
	for {
		var e struct {
			URL string `json:"url"`
		}
		if err := dec.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return n, errors.Join(err, file.Close())
		}
		if strings.HasPrefix(e.URL, "http") {
			fmt.Fprintln(out, e.URL)
			n++
		}
	}
	return n, errors.Join(out.Flush(), file.Close())
}
