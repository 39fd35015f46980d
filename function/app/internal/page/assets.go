package page

import (
	"compress/gzip"
	_ "embed" // of the files
	"io"
	"net/http"
	"strings"
)

// The files of the page, which every app holds: compressed, as TestAssetsAreCompressed writes
// them. (embed.FS and http.FileServer would link more than they are.)
var (
	//go:embed assets/index.html.gz
	indexFile string
	//go:embed assets/page.css.gz
	styleFile string
	//go:embed assets/page.js.gz
	scriptFile string
)

// fileServer serves a compressed file as it was before: the answers of the Functions host are
// texts.
func fileServer(kind, compressed string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind+"; charset=utf-8")
		if file, err := gzip.NewReader(strings.NewReader(compressed)); err == nil { // as the tests have read it
			_, _ = io.Copy(w, file) // the viewer may have gone
		}
	}
}
