//go:build browser

package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Browser is a running Chromium without a window. It ends with the test.
type Browser struct {
	ctx   context.Context
	shots string // directory of screenshots; empty if none are kept
}

// patience bounds what one test does in the browser. It is long, because machines are slow at times.
const patience = 15 * time.Minute

// Start starts a browser.
func Start(t *testing.T) *Browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("Chromium is missing: run scripts/need-chromium.sh --install")
	}
	b := &Browser{shots: os.Getenv("MAPWRIGHT_SCREENSHOTS")}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
		chromedp.Flag("hide-scrollbars", true))
	bounded, cancel := context.WithTimeout(context.Background(), patience)
	allocator, stop := chromedp.NewExecAllocator(bounded, options...)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended
		end()
		stop()
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	b.ctx = ctx
	return b
}

// fromRoot is a path within the module.
func fromRoot(t *testing.T, path string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, path)
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("there is no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}
