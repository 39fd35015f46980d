// Server is the service of a benchmark: an embedded account over TLS 1.3 and
// HTTP/1.1, in a process of its own. The feed of its container items is that of the
// account, or it consists of pages that are built once, so that the client is what
// limits a run.
//
// It prints its endpoint, serves until its standard input ends, and counts requests:
// GET /bench/counts returns them by kind.
package main

import (
	"context"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/tests/bench/rows"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// settings are the flags of the server.
type settings struct {
	ranges     int
	changes    int
	rows       int
	feedDelay  time.Duration
	leaseDelay time.Duration
	certFile   string
}

func main() {
	var s settings
	flag.IntVar(&s.ranges, "ranges", 1, "physical ranges of the container items")
	flag.IntVar(&s.changes, "changes", 0, "changes in the prebuilt feed of each range; 0 serves the account's own feed")
	flag.IntVar(&s.rows, "rows", 0, "rows of package rows to store in the container items")
	flag.DurationVar(&s.feedDelay, "feed-delay", 0, "wait before each answer of the feed")
	flag.DurationVar(&s.leaseDelay, "lease-delay", 0, "wait before each answer to a write of the container leases")
	flag.StringVar(&s.certFile, "cert", "", "file for the certificate, as PEM")
	flag.Parse()
	if err := serve(s); err != nil {
		log.Fatal(err)
	}
}

func serve(s settings) error {
	account, err := emulator.New(nil)
	if err != nil {
		return err
	}
	defer account.Close()
	if err := createItems(account, s.ranges); err != nil {
		return err
	}
	if err := account.CreateContainer("bench", "leases", "/id", 1); err != nil {
		return err
	}
	if err := storeRows(account, s.rows); err != nil {
		return err
	}
	h := &handler{account: account, settings: s}
	if s.changes > 0 {
		h.feed = newFixedFeed(s.changes)
	}
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = h.counts.follow
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // some clients test a connection and drop it
	server.StartTLS()
	defer server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(s.certFile, certificate, 0o600); err != nil {
		return err
	}
	fmt.Println(server.URL + "/")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// maxCreated is the number of ranges that a new container may have at most.
const maxCreated = 1000

// createItems creates the container items. If a new container cannot have so many
// ranges, it begins with a part of them, and all ranges split until there are enough.
func createItems(account *emulator.Account, ranges int) error {
	created, halvings := ranges, 0
	for created > maxCreated {
		created, halvings = created/2, halvings+1
	}
	if err := account.CreateContainer("bench", "items", "/pk", created); err != nil {
		return err
	}
	for range halvings {
		for _, container := range account.State().Databases[0].Containers {
			for _, r := range container.Ranges {
				if _, err := account.Split("bench", "items", r.ID); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// storeRows creates the documents of package rows, in their order.
func storeRows(account *emulator.Account, count int) error {
	credential, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		return err
	}
	client, err := cosmos.NewClient(account.Endpoint(), credential, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
	if err != nil {
		return err
	}
	items := client.Container("bench", "items")
	for n, row := range rows.Generate(count) {
		if _, err := items.Create(context.Background(), cosmos.NewPartitionKey(rows.KeyName(row.Key)), rows.Document(n, row)); err != nil {
			return fmt.Errorf("store row %d: %w", n, err)
		}
	}
	return nil
}

// handler serves the account, with the prebuilt feed in place of its own if there is
// one.
type handler struct {
	account  *emulator.Account
	settings settings
	feed     *fixedFeed
	counts   counts
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/bench/counts" {
		h.counts.ServeHTTP(w, r)
		return
	}
	kind := kindOf(r)
	switch kind {
	case feedRead:
		time.Sleep(h.settings.feedDelay)
	case leaseWrite:
		time.Sleep(h.settings.leaseDelay)
	}
	counted := &countedWriter{ResponseWriter: w}
	if h.feed != nil && kind == feedRead {
		h.feed.ServeHTTP(counted, r)
	} else {
		h.account.ServeHTTP(counted, r)
	}
	h.counts.add(kind, counted)
}

// requestKind is a kind of request that is counted on its own.
type requestKind string

const (
	feedRead   requestKind = "feed"
	emptyFeed  requestKind = "emptyFeed" // a feed read without a change
	leaseWrite requestKind = "leaseWrite"
	leaseRead  requestKind = "leaseRead"
	itemWrite  requestKind = "itemWrite"
	other      requestKind = "other"
)

func kindOf(r *http.Request) requestKind {
	leases := strings.Contains(r.URL.Path, "/colls/leases/docs")
	items := strings.Contains(r.URL.Path, "/colls/items/docs")
	switch {
	case r.Header.Get("A-Im") != "" && items:
		return feedRead
	case leases && (r.Method == http.MethodGet || r.Header.Get("X-Ms-Documentdb-Query") != "" || r.Header.Get("Content-Type") == "application/query+json"):
		return leaseRead
	case leases:
		return leaseWrite
	case items && r.Method != http.MethodGet:
		return itemWrite
	}
	return other
}
