package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter"
	"halley/trigger/emulator"
)

const scrapeInterval = 30 * time.Second

// stage is an embedded account with hosts whose metrics are scraped, in virtual time.
type stage struct {
	t       *testing.T
	account *emulator.Account
	client  *cosmos.Client
	metrics *Metrics
	hosts   []*trigger.Host
	series  map[string][]string // values by series, one for each scrape
	scrapes int
}

func newStage(t *testing.T) *stage {
	t.Helper()
	account, err := emulator.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, account: account, series: map[string][]string{}}
	s.metrics = New(func() []trigger.Status {
		var all []trigger.Status
		for _, h := range s.hosts {
			all = append(all, h.Status())
		}
		return all
	})
	credential, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	s.client, err = cosmos.NewClient(account.Endpoint(), credential, &cosmos.ClientOptions{
		ObserveAttempt: s.metrics.CountRequest, ClientOptions: azcore.ClientOptions{Transport: account},
	})
	for _, err := range []error{
		err,
		s.client.CreateDatabase(t.Context(), "db"),
		s.client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}, Throughput: 20_000,
		}),
		s.client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{ID: "leases", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// addHost makes a host of one function with two ranges.
func (s *stage) addHost(f trigger.Function, o trigger.Options) {
	s.t.Helper()
	f.Container, f.StartFrom = s.client.Container("db", "items"), trigger.FromBeginning()
	o.Observers = []func(trigger.Event){s.metrics.Observe}
	host, err := trigger.New(s.client.Container("db", "leases"), []trigger.Function{f}, &o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.metrics.AddFunction(f.Name)
	s.hosts = append(s.hosts, host)
}

func (s *stage) write(id string) {
	s.t.Helper()
	if _, err := s.client.Container("db", "items").Upsert(s.t.Context(), cosmos.NewPartitionKey(id), map[string]any{"id": id}); err != nil {
		s.t.Fatal(err)
	}
}

// scrape reads the metrics for a while, at intervals.
func (s *stage) scrape(length time.Duration) {
	s.t.Helper()
	for range int(length / scrapeInterval) {
		time.Sleep(scrapeInterval)
		for name, value := range s.metrics.Values() {
			for len(s.series[name]) < s.scrapes {
				s.series[name] = append(s.series[name], "_")
			}
			s.series[name] = append(s.series[name], strconv.FormatFloat(value, 'g', -1, 64))
		}
		s.scrapes++
	}
}

// expectation is the set of alerts that fire at a scrape.
type expectation struct {
	at     int
	alerts []string
}

// expect notes which alerts fire now, with the function or operation that they name.
func (s *stage) expect(alerts ...string) expectation { return expectation{s.scrapes - 1, alerts} }

// judge has promtool evaluate the alert rules on the scraped data.
func (s *stage) judge(t *testing.T, promtool string, expected []expectation) {
	t.Helper()
	rules, err := filepath.Abs("../../../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: %s\ntests:\n  - interval: %s\n    input_series:\n", rules, scrapeInterval, scrapeInterval)
	for _, name := range slices.Sorted(maps.Keys(s.series)) {
		fmt.Fprintf(&b, "      - {series: %s, values: '%s'}\n", yamlText(name), strings.Join(s.series[name], " "))
	}
	b.WriteString("    promql_expr_test:\n")
	for _, e := range expected {
		fmt.Fprintf(&b, "      - eval_time: %s\n        expr: 'group by (alertname, function) (ALERTS{alertstate=\"firing\"})'\n        exp_samples:\n", time.Duration(e.at)*scrapeInterval)
		for _, alert := range e.alerts {
			name, function, _ := strings.Cut(alert, " ")
			label := fmt.Sprintf("alertname=%q", name)
			if function != "" {
				label += fmt.Sprintf(",function=%q", function)
			}
			fmt.Fprintf(&b, "          - {labels: %s, value: 1}\n", yamlText("{"+label+"}"))
		}
	}
	file := filepath.Join(t.TempDir(), "staged.yml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func yamlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// A healthy function, a poison document, a sink that is down, a throttled feed and ranges
// without an owner: the alert rules find each of them in the metrics that real hosts show,
// and nothing else.
func TestAlertsFindStagedFaults(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian package prometheus); continuous integration installs it")
	}
	var s *stage
	var expected []expectation
	synctest.Test(t, func(t *testing.T) {
		s = newStage(t)
		defer s.account.Close()
		store, err := deadletter.NewDirectory(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		failing := func(fails func(*trigger.Change) bool) trigger.Handler {
			return func(_ context.Context, b trigger.Batch) error {
				for i := range b.Changes {
					if fails(&b.Changes[i]) {
						return errors.New("sink is down")
					}
				}
				return nil
			}
		}
		s.addHost(trigger.Function{
			FeedSource: trigger.FeedSource{Name: "letters"}, DeadLetters: store, GiveUpPolicy: trigger.GiveUpPolicy{MaxAttempts: 3}, Handler: failing(func(c *trigger.Change) bool { return c.ID() == "poison" }),
		}, trigger.Options{Owner: "a"})
		s.addHost(trigger.Function{
			FeedSource: trigger.FeedSource{Name: "stalls"}, Handler: failing(func(c *trigger.Change) bool { return c.ID() == "sink" }),
		}, trigger.Options{Owner: "a"})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, len(s.hosts))
		for _, h := range s.hosts {
			go func() { done <- h.Run(ctx) }()
		}
		for i := range 20 {
			s.write(fmt.Sprint("doc", i))
		}
		s.scrape(10 * time.Minute)
		expected = append(expected, s.expect())

		s.write("poison")
		s.scrape(3 * time.Minute)
		expected = append(expected, s.expect("HalleyDeadLetters letters"))
		s.scrape(15 * time.Minute)
		expected = append(expected, s.expect())

		s.write("sink")
		s.scrape(6 * time.Minute)
		expected = append(expected, s.expect("HalleyRangeStalled stalls"))
		s.scrape(10 * time.Minute)
		expected = append(expected, s.expect("HalleyRangeStalled stalls", "HalleyLag stalls"))

		remove := s.account.Inject(emulator.Fault{Header: map[string]string{"A-Im": "Incremental"}, Status: 429, SubStatus: 3200, RetryAfter: 500 * time.Millisecond})
		s.scrape(12 * time.Minute)
		expected = append(expected, s.expect("HalleyRangeStalled letters", "HalleyRangeStalled stalls", "HalleyLag stalls", "HalleyThrottled"))
		remove()

		s.scrape(10 * time.Minute)
		remove = s.account.Inject(emulator.Fault{Method: http.MethodGet, Path: "/colls/items/docs", Status: 403})
		s.scrape(6 * time.Minute)
		expected = append(expected, s.expect("HalleyRangeStalled letters", "HalleyRangeStalled stalls"))
		remove()

		stop()
		for range s.hosts {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		s.hosts = nil
		s.addHost(trigger.Function{FeedSource: trigger.FeedSource{Name: "capped"}, Handler: failing(func(*trigger.Change) bool { return false })}, trigger.Options{Owner: "b", MaxLeases: 1})
		ctx, stop = context.WithCancel(t.Context())
		go func() { done <- s.hosts[0].Run(ctx) }()
		s.scrape(20 * time.Minute)
		expected = append(expected, s.expect("HalleyNoOwner capped"))
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.judge(t, promtool, expected)
}
