package serve

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"maps"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/results/ui"
)

//go:embed static templates
var files embed.FS

// assets are the style sheet and the scripts. Their addresses change with their content, so browsers keep them for
// ever.
type assets struct {
	texts   map[string][]byte
	version string
}

func newAssets() *assets {
	a := &assets{texts: map[string][]byte{"style.css": []byte(ui.StyleSheet() + static("dashboard.css")),
		"app.js":  []byte(static("app.js")),
		"sort.js": []byte(ui.SortScript()), "icon.svg": []byte(static("icon.svg"))}}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(a.texts)) {
		_, _ = sum.Write(a.texts[name])
	}
	a.version = hex.EncodeToString(sum.Sum(nil)[:8])
	return a
}

func static(name string) string {
	text, err := files.ReadFile("static/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// ServeHTTP implements [http.Handler]. Assets need no session: the login page uses them too.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, ok := a.texts[name]
	if !ok || r.PathValue("version") != a.version {
		http.NotFound(w, r)
		return
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml"}
	w.Header().Set("Content-Type", kinds[path.Ext(name)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}
