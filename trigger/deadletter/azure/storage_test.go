package azure

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/uuid"

	"halley/trigger"
	"halley/trigger/deadletter"
	"halley/trigger/deadletter/internal/record"
	"halley/trigger/triggertest"
)

// developmentStorage is the connection string that UseDevelopmentStorage=true
// stands for:
// https://learn.microsoft.com/azure/storage/common/storage-connect-azurite
const developmentStorage = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;" +
	"AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;" +
	"BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1;"

// storage returns the connection string of an Azure Storage account for tests.
func storage(t testing.TB) string {
	t.Helper()
	connection := os.Getenv("HALLEY_TEST_AZURITE")
	switch {
	case connection == "":
		t.Skip("HALLEY_TEST_AZURITE is not set: it takes the connection string of a running Azurite, or UseDevelopmentStorage=true for its default ports")
	case strings.HasPrefix(strings.ToLower(connection), "usedevelopmentstorage=true"):
		return developmentStorage
	}
	return connection
}

// blobs returns a client of a container that does not exist yet.
func blobs(t testing.TB) *container.Client {
	t.Helper()
	c, err := container.NewClientFromConnectionString(storage(t), "letters-"+uuid.NewString(), nil)
	must(t, err)
	t.Cleanup(func() { _, _ = c.Delete(context.Background(), nil) }) // a test may never have made it
	return c
}

func messages(t testing.TB) *azqueue.QueueClient {
	t.Helper()
	q, err := azqueue.NewQueueClientFromConnectionString(storage(t), "letters-"+uuid.NewString(), nil)
	must(t, err)
	t.Cleanup(func() { _, _ = q.Delete(context.Background(), nil) }) // as above
	return q
}

func newBlob(t testing.TB, c *container.Client, opts *BlobOptions) *Blob {
	t.Helper()
	s, err := NewBlob(c, opts)
	must(t, err)
	return s
}

func TestBlobContract(t *testing.T) {
	c := blobs(t)
	triggertest.TestDeadLetters(t, func(t *testing.T) trigger.DeadLetters { return newBlob(t, c, &BlobOptions{Prefix: "dead/", Window: 3}) })
}

func TestBlobPrefixesSeparate(t *testing.T) {
	c := blobs(t)
	a, b := newBlob(t, c, &BlobOptions{Prefix: "a/"}), newBlob(t, c, &BlobOptions{Prefix: "b/"})
	must(t, a.Put(t.Context(), letter("f", "x")))
	same(t, len(list(t, a, "f")), 1)
	same(t, len(list(t, b, "f")), 0)
}

func TestBlobReportsForeignBlobs(t *testing.T) {
	c := blobs(t)
	s := newBlob(t, c, nil)
	must(t, s.Put(t.Context(), letter("f", "whole")))
	must(t, s.Put(t.Context(), letter("f", "other")))
	moved, err := record.Encode(letter("g", "moved"))
	must(t, err)
	for name, body := range map[string]string{"half.json": `{"id":"ha`, "moved.json": string(moved)} {
		_, err := c.NewBlockBlobClient(s.sourcePrefix(of("f"))+name).Upload(t.Context(), streaming.NopCloser(strings.NewReader(body)), nil)
		must(t, err)
	}
	var good []string
	damaged := 0
	for d, err := range trigger.AllDeadLetters(t.Context(), s, dead("f")) {
		if err == nil {
			good = append(good, d.ID)
		} else if errors.Is(err, trigger.ErrDamaged) {
			damaged++
		} else {
			t.Error(err)
		}
	}
	if len(good) != 2 || damaged != 2 {
		t.Errorf("dead letters %v and %d damaged, want 2 and 2", good, damaged)
	}
}

func newQueue(t testing.TB, c *container.Client, m *azqueue.QueueClient) *Queue {
	t.Helper()
	q, err := NewQueue(newBlob(t, c, nil), m, nil)
	must(t, err)
	return q
}

func TestQueueContract(t *testing.T) {
	c, m := blobs(t), messages(t)
	triggertest.TestDeadLetters(t, func(t *testing.T) trigger.DeadLetters { return newQueue(t, c, m) })
}

// receive removes the next message from a queue and returns it.
func receive(t *testing.T, q *azqueue.QueueClient) string {
	t.Helper()
	got, err := q.DequeueMessage(t.Context(), nil)
	must(t, err)
	if len(got.Messages) != 1 {
		t.Fatalf("%d messages", len(got.Messages))
	}
	m := got.Messages[0]
	_, err = q.DeleteMessage(t.Context(), *m.MessageID, *m.PopReceipt, nil)
	must(t, err)
	return *m.MessageText
}

func TestQueueMessages(t *testing.T) {
	m := messages(t)
	q := newQueue(t, blobs(t), m)
	huge := letter("f", "huge")
	huge.Document = []byte(`"` + strings.Repeat("large ", 20_000) + `"`)
	for _, d := range []trigger.DeadLetter{letter("f", "small"), huge} {
		must(t, q.Put(t.Context(), d))
		text := receive(t, m)
		decoded, err := base64.StdEncoding.DecodeString(text)
		must(t, err)
		if holds := strings.Contains(string(decoded), `"document":`); holds != (d.ID == "small") {
			t.Errorf("message of %s holds a document: %t", d.ID, holds)
		}
		for _, text := range [][]byte{[]byte(text), decoded} { // as sent, and as the Functions host hands it on
			got, found, err := q.Open(t.Context(), text)
			must(t, err)
			if !found {
				t.Fatalf("letter %s is not there", d.ID)
			}
			if string(got.Document) != string(d.Document) || got.Error != d.Error {
				t.Errorf("letter %s came back with a document of %d bytes and the error %q", d.ID, len(got.Document), got.Error)
			}
		}
		must(t, q.Delete(t.Context(), d))
		_, found, err := q.Open(t.Context(), decoded)
		must(t, err)
		if found {
			t.Errorf("letter %s is there after Delete", d.ID)
		}
	}
}

func TestQueueRejectsForeignMessages(t *testing.T) {
	q := newQueue(t, blobs(t), messages(t))
	for _, text := range []string{"", "null", "{}", "hello", "[1]", `{"range":"0"}`} {
		if _, _, err := q.Open(t.Context(), []byte(text)); err == nil {
			t.Errorf("opened %q", text)
		}
	}
}

func TestQueuePutFailsWithoutMessage(t *testing.T) {
	c := blobs(t)
	nowhere, err := azqueue.NewQueueClientWithNoCredential("http://127.0.0.1:1/devstoreaccount1/none", nil)
	must(t, err)
	q := newQueue(t, c, nowhere)
	ctx, cancel := context.WithTimeout(t.Context(), 200_000_000)
	defer cancel()
	if err := q.Put(ctx, letter("f", "a")); err == nil || !strings.Contains(err.Error(), "send message") {
		t.Errorf("put: %v", err)
	}
}

func TestStorageOptions(t *testing.T) {
	c, err := container.NewClientWithNoCredential("http://127.0.0.1:1/devstoreaccount1/none", nil)
	must(t, err)
	m, err := azqueue.NewQueueClientWithNoCredential("http://127.0.0.1:1/devstoreaccount1/none", nil)
	must(t, err)
	for name, open := range map[string]func() error{
		"no container":     func() error { _, err := NewBlob(nil, nil); return err },
		"negative window":  func() error { _, err := NewBlob(c, &BlobOptions{Window: -1}); return err },
		"no blob":          func() error { _, err := NewQueue(nil, m, nil); return err },
		"no queue":         func() error { _, err := NewQueue(newBlob(t, c, nil), nil, nil); return err },
		"too large":        func() error { _, err := NewQueue(newBlob(t, c, nil), m, &QueueOptions{MaxMessage: 70_000}); return err },
		"negative message": func() error { _, err := NewQueue(newBlob(t, c, nil), m, &QueueOptions{MaxMessage: -1}); return err },
	} {
		if open() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// inMemory implements the part of Azure Storage that the stores use, for one
// container of blobs and one queue.
type inMemory struct {
	mu       sync.Mutex
	blobs    map[string][]byte
	metadata map[string]http.Header
	archived map[string]bool
}

func (m *inMemory) Do(req *http.Request) (*http.Response, error) {
	if err := context.Cause(req.Context()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := httptest.NewRecorder()
	m.serve(w, req)
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

func (m *inMemory) serve(w *httptest.ResponseRecorder, req *http.Request) {
	fail := func(status int, code bloberror.Code) {
		w.Header().Set("x-ms-error-code", string(code))
		w.WriteHeader(status)
	}
	name := strings.TrimPrefix(req.URL.Path, "/letters/")
	body, found := m.blobs[name]
	query := req.URL.Query()
	switch {
	case req.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		_, _ = w.WriteString("<QueueMessagesList/>")
	case query.Get("comp") == "list":
		w.Header().Set("Content-Type", "application/xml")
		m.list(w, query)
	case req.Method == http.MethodPut && found:
		fail(http.StatusConflict, bloberror.BlobAlreadyExists)
	case req.Method == http.MethodPut:
		m.blobs[name], _ = io.ReadAll(req.Body) // in memory
		m.metadata[name] = req.Header.Clone()
		w.WriteHeader(http.StatusCreated)
	case !found:
		fail(http.StatusNotFound, bloberror.BlobNotFound)
	case req.Method == http.MethodDelete:
		delete(m.blobs, name)
		w.WriteHeader(http.StatusAccepted)
	case m.archived[name]:
		fail(http.StatusConflict, bloberror.BlobArchived)
	default:
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	}
}

func (m *inMemory) list(w io.Writer, query url.Values) {
	fmt.Fprint(w, `<EnumerationResults ContainerName="letters"><Blobs>`)
	for _, name := range slices.Sorted(maps.Keys(m.blobs)) {
		if !strings.HasPrefix(name, query.Get("prefix")) {
			continue
		}
		fmt.Fprintf(w, "<Blob><Name>%s</Name><Metadata>", name)
		for header, values := range m.metadata[name] {
			if property, ok := strings.CutPrefix(strings.ToLower(header), "x-ms-meta-"); ok {
				fmt.Fprintf(w, "<%[1]s>%[2]s</%[1]s>", property, values[0])
			}
		}
		fmt.Fprint(w, "</Metadata></Blob>")
	}
	fmt.Fprint(w, "</Blobs><NextMarker/></EnumerationResults>")
}

// The stores also meet the contract without a real account, which allows more
// kinds of damage.
func TestStorageContractInMemory(t *testing.T) {
	for name, queued := range map[string]bool{"blob": false, "queue": true} {
		t.Run(name, func(t *testing.T) {
			m := &inMemory{blobs: map[string][]byte{}, metadata: map[string]http.Header{}, archived: map[string]bool{}}
			c, err := container.NewClientWithNoCredential("http://storage/letters", &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: m}})
			must(t, err)
			q, err := azqueue.NewQueueClientWithNoCredential("http://storage/letters", &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: m}})
			must(t, err)
			b := newBlob(t, c, &BlobOptions{Window: 2})
			spoil := func(name string, do func(blob string)) spoiling {
				return spoiling{Name: name, KeepsKey: true, Do: func(_ *testing.T, d trigger.DeadLetter) string {
					blob := b.blobName(d.Source(), d.Key, d.ID)
					do(blob)
					return blob
				}}
			}
			triggertest.TestDeadLetters(t, func(t *testing.T) trigger.DeadLetters {
				if queued {
					q, err := NewQueue(b, q, nil)
					must(t, err)
					return q
				}
				return newBlob(t, c, &BlobOptions{Window: 2})
			},
				spoil("body", func(blob string) { m.blobs[blob] = m.blobs[blob][1:] }),
				spoil("empty", func(blob string) { m.blobs[blob] = nil }),
				spoil("metadata", func(blob string) {
					m.blobs[blob] = []byte(`{"id":"a","lsn":"x"}`)
					m.metadata[blob] = http.Header{"X-Ms-Meta-Halleykind": {"dead"}, "X-Ms-Meta-Halleyorder": {"1"}, "X-Ms-Meta-Halleytime": {"yesterday"}, "X-Ms-Meta-Halleylsn": {"x"}, "X-Ms-Meta-Halleyrange": {"%zz"}}
				}),
				spoil("version", func(blob string) {
					m.blobs[blob] = bytes.Replace(m.blobs[blob], []byte(`"version":1`), []byte(`"version":2`), 1)
				}),
				spoil("kind", func(blob string) {
					m.metadata[blob].Del("x-ms-meta-halleykind")
					m.blobs[blob] = bytes.Replace(m.blobs[blob], []byte(`"dead"`), []byte(`"other"`), 1)
				}),
				spoil("archived", func(blob string) { m.archived[blob] = true }))
		})
	}
}

// A blob that is far larger than a dead letter is damaged: reading it takes bounded memory.
func TestTooLargeBlobIsDamaged(t *testing.T) {
	sent := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		for chunk := make([]byte, 1<<20); sent < maxBlob+(64<<20); sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	client, err := container.NewClientWithNoCredential(server.URL+"/dead", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewBlob(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.read(t.Context(), "x")
	server.Close()
	var damage *deadletter.DamageError
	if !errors.As(err, &damage) || !strings.Contains(err.Error(), "more than 64 MB") || sent >= maxBlob+(64<<20) {
		t.Errorf("%v after %d MB", err, sent>>20)
	}
}
