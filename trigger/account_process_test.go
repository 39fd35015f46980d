//go:build unix

package trigger

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// rangesVariable has this test binary serve an account whose container has that
// number of ranges, instead of running tests: see startAccount.
const rangesVariable = "HALLEY_TEST_ACCOUNT_RANGES"

func TestMain(m *testing.M) {
	if n := os.Getenv(rangesVariable); n != "" {
		if err := serveAccount(n); err != nil {
			log.Fatal(err)
		}
		return
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(800) // many short requests make much garbage
		if os.Getenv("HALLEY_TEST_LONG") == "" {
			runtime.GOMAXPROCS(1) // in virtual time goroutines wait for each other: another processor costs more than it gives
		}
	}
	os.Exit(m.Run())
}

// serveAccount serves an account until its standard input ends. It prints the endpoint.
func serveAccount(ranges string) error {
	n, err := strconv.Atoi(ranges)
	if err != nil {
		return err
	}
	account, err := emulator.New(nil)
	if err != nil {
		return err
	}
	defer account.Close()
	if err := account.CreateContainer("db", "items", "/player", min(n, 1000)); err != nil {
		return err
	}
	if err := account.CreateContainer("db", "leases", "/id", 1); err != nil {
		return err
	}
	for split := range n - min(n, 1000) { // a container has at most 1,000 ranges when it is created
		if _, err := account.Split("db", "items", strconv.Itoa(split)); err != nil {
			return err
		}
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return account.Serve(ctx, emulator.ServeOptions{Addr: "127.0.0.1:0", Ready: func(endpoint string) { fmt.Println(endpoint) }})
}

// remoteAccount is an account in a process of its own, so that this process's
// processor time and memory are those of the client.
type remoteAccount struct {
	endpoint string
	client   *cosmos.Client
	items    *cosmos.Container
	leases   *cosmos.Container

	date, signature string // of bare polls: signed once
}

// startAccount starts a process that serves an account until the benchmark ends.
func startAccount(b *testing.B, ranges int) *remoteAccount {
	b.Helper()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), rangesVariable+"="+strconv.Itoa(ranges))
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = server.Wait() // it ends with its input
	})
	endpoint, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	a := &remoteAccount{endpoint: strings.TrimSpace(endpoint)}
	cred, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		b.Fatal(err)
	}
	if a.client, err = cosmos.NewClient(a.endpoint, cred, nil); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(a.client.CloseIdleConnections)
	a.date, a.signature = signPolls(b)
	a.items, a.leases = a.client.Container("db", "items"), a.client.Container("db", "leases")
	return a
}

// signPolls signs the requests of pollBare.
// https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources
func signPolls(b *testing.B) (date, signature string) {
	date = time.Now().UTC().Format(http.TimeFormat)
	key, err := base64.StdEncoding.DecodeString(emulator.Key)
	if err != nil {
		b.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "get\ndocs\ndbs/db/colls/items\n%s\n\n", strings.ToLower(date))
	return date, url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// pollBare polls each range once, as the bare client of net/http does: the floor of
// all polls. Workers share the ranges.
func (a *remoteAccount) pollBare(b *testing.B, client *http.Client, ranges []cosmos.Range, workers int) {
	b.Helper()
	next := make(chan cosmos.Range)
	done := make(chan error, workers)
	for range workers {
		go func() {
			var failed error
			for r := range next {
				if err := a.pollOne(client, r); err != nil {
					failed = err
				}
			}
			done <- failed
		}()
	}
	for _, r := range ranges {
		next <- r
	}
	close(next)
	for range workers {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

func (a *remoteAccount) pollOne(client *http.Client, r cosmos.Range) error {
	req, err := http.NewRequest(http.MethodGet, a.endpoint+"dbs/db/colls/items/docs", nil)
	if err != nil {
		return err
	}
	req.Header.Set("A-IM", "Incremental Feed")
	req.Header.Set("If-None-Match", "*")
	req.Header.Set("x-ms-documentdb-partitionkeyrangeid", r.ID)
	req.Header.Set("x-ms-version", "2020-07-15")
	req.Header.Set("x-ms-date", a.date)
	req.Header.Set("Authorization", a.signature)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotModified {
		return fmt.Errorf("poll of range %s: %s", r.ID, resp.Status)
	}
	return nil
}

// residentMiB returns the resident memory of this process in MiB.
func residentMiB(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("needs /proc: ", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}
