package verify

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// given are the options of a run on containers that exist, and their client.
func given(t *testing.T, account *emulator.Account, next transport, ttl bool) Options {
	t.Helper()
	o := options(t, account.Endpoint(), next)
	o.Create, o.Database, o.Items, o.Leases, o.Limit = false, "shop", "items", "leases", 3000
	client := options(t, account.Endpoint(), account).Client
	definition := cosmos.ContainerDefinition{ID: o.Items, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/tenant"}}}
	if ttl {
		seconds := -1
		definition.DefaultTTL = &seconds
	}
	err := errors.Join(client.CreateDatabase(t.Context(), o.Database), client.CreateContainer(t.Context(), o.Database, definition),
		client.CreateContainer(t.Context(), o.Database, cosmos.ContainerDefinition{ID: o.Leases, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}}))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// held returns how many documents the containers of an account hold.
func held(account *emulator.Account) (items int) {
	for _, d := range account.State().Databases {
		for _, c := range d.Containers {
			items += c.Items
		}
	}
	return items
}

func put(t *testing.T, account *emulator.Account, o Options, id string) {
	t.Helper()
	container := options(t, account.Endpoint(), account).Client.Container(o.Database, o.Items)
	if _, err := container.Upsert(t.Context(), cosmos.NewPartitionKey("a"), map[string]string{"id": id, "tenant": "a"}); err != nil {
		t.Fatal(err)
	}
}

// unverifiedRows returns the facts that were not verified, with their reasons.
func unverifiedRows(r *Report) string {
	var text strings.Builder
	for _, row := range r.Rows {
		if row.Verdict == VerdictUnverified {
			text.WriteString(row.Fact + ": " + row.Seen + "\n")
		}
	}
	return text.String()
}

func TestGivenContainersAreLeftAsTheyWere(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		o := given(t, account, account.Do, false)
		report, err := Run(t.Context(), o)
		verified(t, report, err)
		if n := held(account); n != 0 || report.LeftOver != "" {
			t.Errorf("%d documents are left, %q", n, report.LeftOver)
		}
		if len(account.State().Databases) != 1 || len(account.State().Databases[0].Containers) != 2 {
			t.Error("a container was deleted")
		}
		want := "recreated container: needs --create\nthrottling: needs --throttle\nsplit: needs --split\n"
		if got := unverifiedRows(report); !strings.HasPrefix(got, want) || !strings.Contains(got, "no default time to live") || !strings.Contains(got, "does not keep all versions") {
			t.Errorf("not verified:\n%s", got)
		}
		if report.Charged < 0.8*report.Estimated || report.Charged > 1.2*report.Estimated {
			t.Errorf("charged %.0f RU, said %.0f", report.Charged, report.Estimated)
		}
	})
}

func TestDocumentsExpireWhereTheContainerHasATimeToLive(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		o := given(t, account, account.Do, true)
		o.Limit = 0 // the default is enough
		report, err := Run(t.Context(), o)
		verified(t, report, err)
		account.Advance(leftoverLife + 1e9)
		if p, err := o.Client.Container(o.Database, o.Items).ReadFeed(t.Context(), cosmos.FeedRequest{Range: cosmos.Range{ID: "0", Max: "FF"}}); err != nil || len(p.Items) > 0 {
			t.Errorf("documents are left: %v, %v", p, err)
		}
	})
}

func TestContainersWithDataAreRefused(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		o := given(t, account, account.Do, false)
		put(t, account, o, "theirs")
		report, err := Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "--i-know-it-has-data") || report.Code != CodeFailed {
			t.Fatalf("code %d, error %v", report.Code, err)
		}
		if n := held(account); n != 1 {
			t.Errorf("%d documents, want 1", n)
		}
		o = options(t, account.Endpoint(), account)
		o.Create, o.Database, o.Items, o.Leases, o.DataIsKnown, o.Limit = false, "shop", "items", "leases", true, 3000
		report, err = Run(t.Context(), o)
		verified(t, report, err)
		if n := held(account); n != 1 {
			t.Errorf("%d documents, want the one that the run has not created", n)
		}
	})
}

func TestReadOnlyKeyRunsWhatItCan(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		refuse := transport(func(req *http.Request) (*http.Response, error) {
			if query := req.Header.Get("X-Ms-Documentdb-Isquery"); req.Method != http.MethodGet && query == "" {
				resp, err := account.Do(req.Clone(req.Context())) // for its form
				if err == nil {
					resp.StatusCode = http.StatusForbidden
				}
				return resp, err
			}
			return account.Do(req)
		})
		o := given(t, account, refuse, false)
		report, err := Run(t.Context(), o)
		verified(t, report, err)
		same := 0
		for _, row := range report.Rows {
			if row.Verdict == VerdictSame {
				same++
			}
		}
		if got := unverifiedRows(report); same < 6 || !strings.Contains(got, "lease: create: the key may only read\n") {
			t.Errorf("%d facts are the same; not verified:\n%s", same, got)
		}
	})
}

func TestInterruptedRunCleansUp(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		ctx, interrupt := context.WithCancel(t.Context())
		o := options(t, account.Endpoint(), transport(func(req *http.Request) (*http.Response, error) {
			if factOf(req.Context()) == "end to end: handover" && req.Method == http.MethodPut {
				interrupt()
			}
			return account.Do(req)
		}))
		report, err := Run(ctx, o)
		if !errors.Is(err, context.Canceled) || report.Code != CodeFailed || !strings.Contains(report.Verdict, "interrupted") {
			t.Fatalf("code %d, error %v: %s", report.Code, err, report.Verdict)
		}
		if left := account.State().Databases; len(left) > 0 || report.LeftOver != "" {
			t.Errorf("left behind: %v, %q", left, report.LeftOver)
		}
	})
}

// expensive is the account, whose writes reach the limit of a run.
func expensive(account *emulator.Account) transport {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := account.Do(req)
		if err == nil && resp.StatusCode == http.StatusCreated {
			resp.Header.Set("X-Ms-Request-Charge", "100")
		}
		return resp, err
	}
}

func TestRunEndsAtItsLimit(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		report, err := Run(t.Context(), options(t, account.Endpoint(), expensive(account)))
		if !errors.Is(err, errLimit) || report.Code != CodeFailed {
			t.Fatalf("code %d, error %v", report.Code, err)
		}
		if report.Charged > DefaultLimit+200 || len(account.State().Databases) > 0 {
			t.Errorf("charged %.0f RU; left: %v", report.Charged, account.State().Databases)
		}
	})
}

// A run that has found a difference may still end early: the sentence says both.
func TestEarlyEndIsSaidNextToADifference(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		o := options(t, account.Endpoint(), liar(account, expensive(account), "feed: end", lies()["feed: end"]))
		report, err := Run(t.Context(), o)
		if !errors.Is(err, errLimit) || report.Code != CodeUnusable {
			t.Fatalf("code %d, error %v", report.Code, err)
		}
		if want := "account: feed: end. The run has not come to its end: the limit of request units is reached."; !strings.HasSuffix(report.Verdict, want) {
			t.Errorf("the verdict is %q", report.Verdict)
		}
	})
}

func TestCutNetworkSaysWhatToDelete(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		cut := transport(func(req *http.Request) (*http.Response, error) {
			if fact := factOf(req.Context()); fact != "" && fact >= "lease" || req.Method == http.MethodDelete && fact == "" {
				return nil, errors.New("connection reset by peer")
			}
			return account.Do(req)
		})
		report, err := Run(t.Context(), options(t, account.Endpoint(), cut))
		if err == nil || report.Code != CodeFailed || !strings.Contains(report.Verdict, "delete the database halley-verify-t by hand") {
			t.Errorf("code %d, error %v: %s", report.Code, err, report.Verdict)
		}
	})
}

func TestRunsAtTheSameTimeAreIndependent(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		first := given(t, account, account.Do, true)
		second := options(t, account.Endpoint(), account)
		second.Create, second.Database, second.Items, second.Leases, second.Limit, second.Run = false, "shop", "items", "leases", 3000, "halley-verify-u"
		var runs sync.WaitGroup
		for _, o := range []Options{first, second} {
			o.DataIsKnown = true // that of the other run
			runs.Go(func() {
				report, err := Run(t.Context(), o)
				if err != nil || report.Code != CodeVerified {
					t.Errorf("%s: %v: %s", o.Run, err, report.Verdict)
				}
			})
		}
		runs.Wait()
	})
}

func TestRecordHoldsNoSecretsAndNoNames(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		leaky := transport(func(req *http.Request) (*http.Response, error) {
			resp, err := account.Do(req)
			if err == nil {
				resp.Header.Set("X-Ms-Session-Token-Owner", "rntbd://10.0.0.7:14000/secret")
			}
			return resp, err
		})
		o := options(t, account.Endpoint(), leaky)
		o.Record, o.Database = true, "secretdb"
		report, err := Run(t.Context(), o)
		verified(t, report, err)
		var file strings.Builder
		if err := report.WriteRecord(&file); err != nil {
			t.Fatal(err)
		}
		text := file.String()
		if n := strings.Count(text, "\n"); n < 150 {
			t.Errorf("%d exchanges", n)
		}
		for _, secret := range []string{"secretdb", "halley.emulator", "halley-verify-t", "10.0.0.7", "type%3Dmaster", "Authorization", "sig=", emulator.Key} {
			if strings.Contains(text, secret) {
				t.Errorf("the record holds %q", secret)
			}
		}
		var first Recorded
		if line, _, _ := strings.Cut(text, "\n"); json.Unmarshal([]byte(line), &first) != nil || first.Status == 0 {
			t.Errorf("first line %s", line)
		}
	})
}

func TestErrorsAreRecordedWithoutDiagnostics(t *testing.T) {
	n := newNames("https://games.documents.azure.com:443/", &scratch{run: "halley-verify-x", database: "prod-db", items: "items", leases: "l-eases"})
	message := `{"code":"NotFound","message":"Entity with the specified id does not exist in the system. More info: aka, \r\nActivityId: 6f2a-11, Request URI: /apps/1/services/2, RequestStats: rntbd://cdb-ms-prod-eastus1-fd7.documents.azure.com:14382 10.1.2.3"}`
	got := n.recorded(exchange{path: "/dbs/prod-db/colls/l-eases/docs/games-1", status: 404, answerBody: []byte(message)}, exchange{}.sent)
	if want := "/dbs/scratch/colls/leases/docs/account-1"; got.Path != want {
		t.Errorf("path %s, want %s", got.Path, want)
	}
	if want := `{"code":"NotFound","message":"Entity with the specified id does not exist in the system. More info: aka"}`; got.Result != want {
		t.Errorf("body %s, want %s", got.Result, want)
	}
	if h := n.headers(http.Header{"X-Ms-Serviceversion": {"version=2.14.0.0"}, "Etag": {"10.1.2.3"}}, keptAnswer); h["X-Ms-Serviceversion"] != "version=2.14.0.0" || h["Etag"] != "address.example" {
		t.Errorf("headers %v", h)
	}
	if region := n.clean("games-westeurope.documents.azure.com:443"); strings.Contains(region, "azure") || strings.Contains(region, "games") {
		t.Errorf("region %s", region)
	}
}

func TestContainerWithSeveralRanges(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		if err := errors.Join(account.CreateContainer("wide", "items", "/tenant", 3), account.CreateContainer("wide", "leases", "/id", 1)); err != nil {
			t.Fatal(err)
		}
		o := options(t, account.Endpoint(), account)
		o.Create, o.Database, o.Items, o.Leases, o.Limit = false, "wide", "items", "leases", 3000
		report, err := Run(t.Context(), o)
		verified(t, report, err)
		if n := held(account); n != 0 {
			t.Errorf("%d documents are left", n)
		}
	})
}

func TestLostAnswersLeaveNothingBehind(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		o := given(t, account, func(req *http.Request) (*http.Response, error) {
			resp, err := account.Do(req)
			if factOf(req.Context()) == "session: token" {
				return nil, errors.New("connection reset by peer")
			}
			return resp, err
		}, false)
		report, err := Run(t.Context(), o)
		if !errors.Is(err, cosmos.ErrOutcomeUnknown) || report.Code != CodeFailed {
			t.Fatalf("code %d, error %v", report.Code, err)
		}
		if n := held(account); n != 0 {
			t.Errorf("%d documents are left", n)
		}
	})
}

func TestLostDatabaseIsDeleted(t *testing.T) {
	for _, path := range []string{"/dbs", "/dbs/halley-verify-t/colls"} {
		inAccount(t, func(t *testing.T, account *emulator.Account) {
			report, err := Run(t.Context(), options(t, account.Endpoint(), transport(func(req *http.Request) (*http.Response, error) {
				resp, err := account.Do(req)
				if req.Method == http.MethodPost && req.URL.Path == path {
					return nil, errors.New("connection reset by peer")
				}
				return resp, err
			})))
			if err == nil || report.Code != CodeFailed || len(account.State().Databases) > 0 {
				t.Errorf("%s: code %d, error %v, left: %v", path, report.Code, err, account.State().Databases)
			}
		})
	}
}

func TestAccountThatIsNotThrottledIsNotVerified(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		o := options(t, account.Endpoint(), account)
		o.Throttle = true
		report, err := Run(t.Context(), o)
		verified(t, report, err)
		if got := unverifiedRows(report); !strings.HasPrefix(got, "throttling: 1800 RU were not throttled\n") {
			t.Errorf("not verified:\n%s", got)
		}
	})
}

// A hosted account answers 404 without a substatus, and ranges without an etag (recorded
// answers of a hosted account, October 2026).
func TestMannersOfAHostedAccountAreVerified(t *testing.T) {
	inAccount(t, func(t *testing.T, account *emulator.Account) {
		report, err := Run(t.Context(), options(t, account.Endpoint(), transport(func(req *http.Request) (*http.Response, error) {
			if strings.HasSuffix(req.URL.Path, "/pkranges") {
				req.Header.Del("If-None-Match")
			}
			resp, err := account.Do(req)
			if err == nil && resp.StatusCode == http.StatusNotFound {
				resp.Header.Del("X-Ms-Substatus")
			}
			if err == nil && strings.HasSuffix(req.URL.Path, "/pkranges") {
				resp.Header.Del("Etag")
			}
			return resp, err
		})))
		verified(t, report, err)
		for _, row := range report.Rows {
			if want := map[string]string{"ranges: incremental read": "200 with all ranges", "absent container": "404 for a document"}[row.Fact]; want != "" && row.Seen != want {
				t.Errorf("%s: seen %q, want %q", row.Fact, row.Seen, want)
			}
		}
	})
}
