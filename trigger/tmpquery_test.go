package trigger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"halley/trigger/cosmos"
)

func (w *world) tmpQuery(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	var q struct {
		Parameters []struct{ Value string }
	}
	json.Unmarshal(body, &q)
	c := w.client().Container("db", strings.Split(r.URL.Path, "/")[4])
	ranges, err := c.Ranges(r.Context())
	if err != nil {
		return nil, err
	}
	var docs []string
	for _, rg := range ranges {
		pos := ""
		for {
			p, err := c.ReadFeed(r.Context(), cosmos.FeedRequest{Range: rg, Continuation: pos})
			if err != nil {
				return nil, err
			}
			if p.NotModified {
				break
			}
			pos = p.Continuation
			for _, it := range p.Items {
				if strings.HasPrefix(documentID(it.Document), q.Parameters[0].Value) {
					docs = append(docs, string(it.Document))
				}
			}
		}
	}
	out := fmt.Sprintf(`{"_rid":"x","Documents":[%s],"_count":%d}`, strings.Join(docs, ","), len(docs))
	return &http.Response{StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader([]byte(out))), ContentLength: int64(len(out)), Request: r}, nil
}
