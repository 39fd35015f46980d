package opensearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"halley/handlers"
	"halley/handlers/search"
	"halley/trigger/redact"
)

// indexName matches names that need no escape in a path.
var indexName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,254}$`)

// largestAnswer bounds an answer in memory, and largestError that of a refusal.
const (
	largestAnswer = 64 << 20
	largestError  = 64 << 10
)

// request sends a request and decodes the answer into v. If the answer is not a success,
// the error says what the cluster says, and how to fix it.
func (x *Index) request(ctx context.Context, method, path, contentType string, body []byte, v any) (status int, err error) {
	to := *x.cluster
	path, query, _ := strings.Cut(path, "?")
	to.Path, to.RawQuery = strings.TrimSuffix(to.Path, "/")+path, query
	req, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return 0, redact.Error(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("Accept", "application/json")
	if x.settings.Username != "" {
		req.SetBasicAuth(x.settings.Username, x.settings.Password.Reveal())
	}
	resp, err := x.client.Do(req)
	if err != nil {
		return 0, redact.Error(err)
	}
	defer resp.Body.Close()
	limit := int64(largestAnswer)
	if resp.StatusCode != http.StatusOK {
		limit = largestError
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return resp.StatusCode, redact.Error(fmt.Errorf("read the answer: %w", err))
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, redact.Error(failure(resp, answer))
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return resp.StatusCode, fmt.Errorf("the answer is not that of OpenSearch: %w", err)
	}
	return resp.StatusCode, nil
}

// failure describes an answer that is not a success.
func failure(resp *http.Response, body []byte) error {
	text := fmt.Sprintf("OpenSearch answers %d", resp.StatusCode)
	reason := refusal(body)
	if reason != nil {
		text += fmt.Sprintf(": %s: %.300s", reason.Type, reason.Reason)
	}
	if delay := resp.Header.Get("Retry-After"); delay != "" {
		text += ", retry after " + delay + " s"
	}
	switch status := resp.StatusCode; {
	case reason != nil && reason.Type == "cluster_block_exception":
		text += " (remove the block: see index.blocks in the settings of the index, and the disks of the cluster)"
	case status == http.StatusUnauthorized:
		text += " (check USERNAME and PASSWORD)"
	case status == http.StatusForbidden:
		text += " (the user needs the permission indices:data/write/bulk on the index, see docs/handlers/search.md)"
	case status == http.StatusNotFound:
		text += " (create the index, or correct INDEX)"
	case status == http.StatusRequestEntityTooLarge:
		text += " (set BULK_BYTES below http.max_content_length of the cluster)"
	}
	return errors.New(text)
}

// refusal returns the reason in an answer that is not a success, or nil. The reason of one shard or
// of one document says more than that of the request.
func refusal(body []byte) *bulkError {
	var answer struct {
		Error *struct {
			bulkError
			Roots []*bulkError `json:"root_cause"`
		}
		Failures []struct{ Cause *bulkError } // of a delete by query
	}
	switch err := json.Unmarshal(body, &answer); {
	case err != nil:
		return nil
	case answer.Error != nil && len(answer.Error.Roots) > 0:
		return answer.Error.Roots[0]
	case answer.Error != nil:
		return &answer.Error.bulkError
	case len(answer.Failures) > 0:
		return answer.Failures[0].Cause
	}
	return nil
}

// Search looks for words in all properties, with the simple query syntax of OpenSearch.
// A change is found when the index was refreshed, by default within a second.
func (x *Index) Search(ctx context.Context, text string, limit int) ([]search.Hit, error) {
	body, err := json.Marshal(map[string]any{
		"size":  limit,
		"query": map[string]any{"simple_query_string": map[string]any{"query": text, "default_operator": "and"}},
	})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Hits struct {
			Hits []struct {
				ID     string          `json:"_id"`
				Score  float64         `json:"_score"`
				Source json.RawMessage `json:"_source"`
			}
		}
	}
	if _, err := x.request(ctx, http.MethodPost, "/"+x.settings.Index+"/_search", "application/json", body, &answer); err != nil {
		return nil, fmt.Errorf("search %s: %w", x.settings.Index, err)
	}
	hits := []search.Hit{}
	for _, h := range answer.Hits.Hits {
		var source struct{ ID string }
		if err := json.Unmarshal(h.Source, &source); err != nil {
			return nil, fmt.Errorf("search %s: hit %q: %w", x.settings.Index, h.ID, err)
		}
		key, _ := strings.CutSuffix(h.ID, "/"+source.ID)
		if key == h.ID {
			key = "" // the id is a digest
		}
		hits = append(hits, search.Hit{ID: source.ID, Key: key, Score: h.Score, Document: h.Source})
	}
	return hits, nil
}

// shortestMemory is how long the cluster must remember deletes, for the defaults of lease
// expiration and handler timeout.
const shortestMemory = 10 * time.Minute

// probe tries whether the index exists, and how long it remembers deletes.
func (x *Index) probe(prefix string) handlers.Probe {
	return handlers.Probe{What: "index " + x.settings.Index + " at " + x.cluster.Host, Try: func(ctx context.Context) error {
		var answer map[string]struct{ Settings map[string]any }
		name := url.PathEscape(x.settings.Index)
		// Without the defaults, the answer would not name an index that does not have the setting.
		status, err := x.request(ctx, http.MethodGet, "/"+name+"/_settings/index.gc_deletes?flat_settings=true&include_defaults=true", "", nil, &answer)
		switch {
		case status == 0 && err != nil:
			return fmt.Errorf("%w: start it, or correct %sURL", err, prefix)
		case err != nil:
			return err
		}
		for concrete, one := range answer {
			if text, _ := one.Settings["index.gc_deletes"].(string); timeValue(text) < shortestMemory {
				return fmt.Errorf(`%s forgets deletes too soon, so that an old write may bring a document back: PUT /%s/_settings {"index.gc_deletes":"1h"}`, concrete, concrete)
			}
		}
		return nil
	}}
}

// timeValue parses a time of OpenSearch, such as 60s, 1h or 2d. A missing one is 0.
func timeValue(text string) time.Duration {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, _ := strconv.Atoi(days) // 0 counts as too short
		return time.Duration(n) * 24 * time.Hour
	}
	d, _ := time.ParseDuration(text)
	return d
}
