package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	jsonv2 "github.com/go-json-experiment/json"

	"halley/tests/bench/report"
	"halley/trigger"
	"halley/trigger/awslambda"
	"halley/trigger/cosmos"
)

// order is a document of the prebuilt feed.
type order struct {
	ID    string  `json:"id"`
	Key   string  `json:"pk"`
	Total float64 `json:"total"`
	Paid  bool    `json:"paid"`
	Time  string  `json:"placed"`
	Lines []struct {
		SKU   string  `json:"sku"`
		Name  string  `json:"name"`
		Count int     `json:"count"`
		Price float64 `json:"price"`
	} `json:"lines"`
	Ship struct {
		Name   string  `json:"name"`
		Street string  `json:"street"`
		City   string  `json:"city"`
		X      float64 `json:"x"`
		Y      float64 `json:"y"`
	} `json:"ship"`
	Note string `json:"note"`
}

// typedHandlers compares handlers of trigger.Documents and of awslambda.Handler with
// decoding the same documents with encoding/json. All take turns.
func typedHandlers(ctx context.Context, s settings) (figures, error) {
	changes, err := s.readChanges(ctx)
	if err != nil {
		return nil, err
	}
	batch, decoded := trigger.NewBatch(changes...), 0
	count := func(_ context.Context, docs []order) error {
		decoded += len(docs)
		return nil
	}
	lambda, err := awslambda.Handler(count, nil)
	if err != nil {
		return nil, err
	}
	strict := trigger.DocumentsWith(func(document []byte, v any) error { return jsonv2.Unmarshal(document, v) }, count)
	reference := func() error {
		docs := make([]order, len(changes))
		for i, c := range changes {
			if err := json.Unmarshal(c.Document, &docs[i]); err != nil {
				return err
			}
		}
		return nil
	}
	array := jsonArray(changes)
	arrayAlone := func(context.Context, trigger.Batch) error {
		var docs []order
		err := json.Unmarshal(array, &docs)
		decoded += len(docs)
		return err
	}
	ratios := map[string]report.Samples{}
	for range s.Windows {
		want, err := timeOf(s.Window, reference)
		if err != nil {
			return nil, err
		}
		for name, handle := range map[string]trigger.Handler{"typedRatio": trigger.Documents(count), "strictRatio": strict, "lambdaRatio": lambda, "arrayRatio": arrayAlone} {
			decoded = 0
			got, err := timeOf(s.Window, func() error { return handle(ctx, batch) })
			if err != nil {
				return nil, err
			}
			if decoded == 0 {
				return nil, errors.New("the typed handler was not called")
			}
			ratios[name] = append(ratios[name], want/got)
		}
	}
	return figures{"typedRatio": ratios["typedRatio"].Median(), "strictRatio": ratios["strictRatio"].Median(), "lambdaRatio": ratios["lambdaRatio"].Median(), "arrayRatio": ratios["arrayRatio"].Median()}, nil
}

// jsonArray joins documents.
func jsonArray(changes []trigger.Change) []byte {
	var documents [][]byte
	for _, c := range changes {
		documents = append(documents, c.Document)
	}
	return slices.Concat([]byte("["), bytes.Join(documents, []byte(",")), []byte("]"))
}

// readChanges returns the changes of the whole feed as a handler gets them.
func (s settings) readChanges(ctx context.Context) (changes []trigger.Change, err error) {
	items, _, err := s.containers()
	if err != nil {
		return nil, err
	}
	err = eachPage(ctx, items, s.Page, func(page *cosmos.Page) error {
		for _, item := range page.Items {
			changes = append(changes, trigger.Change{Operation: cosmos.OperationUpsert, Document: bytes.Clone(item.Document), LSN: item.LSN})
		}
		return nil
	})
	return changes, err
}

// timeOf returns the processor time of one call, over calls for a time.
func timeOf(window time.Duration, do func() error) (float64, error) {
	m := startMeter()
	for calls := 1; ; calls++ {
		if err := do(); err != nil {
			return 0, err
		}
		if time.Since(m.began) > window {
			return m.stop(calls)["cpuPerMillion"], nil
		}
	}
}

// damagingTransport answers from the server, and reads of the feed with one page that
// damage has changed.
type damagingTransport struct {
	client *http.Client
	random *rand.Rand // nil leaves pages as they are
}

func (t *damagingTransport) Do(request *http.Request) (*http.Response, error) {
	response, err := t.client.Do(request)
	if err != nil || t.random == nil || request.Header.Get("A-Im") == "" || response.StatusCode != http.StatusOK {
		return response, err
	}
	page, err := io.ReadAll(response.Body)
	if err == nil {
		err = response.Body.Close()
	}
	if len(page) > 0 && bytes.Contains(page, []byte(`"Documents"`)) {
		page = damage(page, t.random)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(page)), int64(len(page))
	response.Header.Del("Content-Length")
	return response, err
}

// damage returns a copy of a page that is not JSON in UTF-8 any more.
func damage(page []byte, random *rand.Rand) []byte {
	for {
		changed := bytes.Clone(page)
		at := random.IntN(len(changed))
		switch random.IntN(4) {
		case 0:
			changed[at] ^= 1 << random.IntN(8)
		case 1:
			changed = append(changed[:at], changed[at+1:]...)
		case 2:
			changed = append(changed[:at:at], append([]byte{page[random.IntN(len(page))]}, page[at:]...)...)
		case 3:
			changed[at] = byte(random.IntN(256))
		}
		if !json.Valid(changed) || !utf8.Valid(changed) {
			return changed
		}
	}
}

// damagedPages counts pages that are not JSON in UTF-8 and are read all the same.
func damagedPages(ctx context.Context, s settings) (figures, error) {
	credential, err := cosmos.KeyCredential(s.Key)
	if err != nil {
		return nil, err
	}
	transport := &damagingTransport{client: &http.Client{Timeout: time.Minute}}
	client, err := cosmos.NewClient(s.Endpoint, credential, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: transport, Retry: policy.RetryOptions{MaxRetries: -1}},
	})
	if err != nil {
		return nil, err
	}
	items := client.Container("bench", "items")
	ranges, err := items.Ranges(ctx)
	if err != nil {
		return nil, err
	}
	request := cosmos.FeedRequest{Range: ranges[0], MaxItems: 2}
	if _, err := items.ReadFeed(ctx, request); err != nil {
		return nil, fmt.Errorf("a page without damage is refused: %w", err)
	}
	transport.random = rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range s.Changes {
		if page, err := items.ReadFeed(ctx, request); err == nil {
			taken++
			page.Release()
		}
	}
	return figures{"takenPercent": 100 * float64(taken) / float64(s.Changes)}, nil
}
