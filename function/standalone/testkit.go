package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"halley/handlers/remote"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// kitScenario is the first line of a library to the command test: a scenario of
// [triggertest.Converges].
type kitScenario struct {
	PartitionKey       string `json:"partitionKey"`
	SoftDeleteProperty string `json:"softDeleteProperty"`
	AllVersions        bool   `json:"allVersions"`
	BlockKeys          bool   `json:"blockKeys"`
	WriteOnce          bool   `json:"writeOnce"`
	Want               bool   `json:"want"` // the library answers the question want
	Seeds              int    `json:"seeds"`
	Seed               uint64 `json:"seed"` // the only one that runs; 0 runs several
}

// kitQuestion is a line to the library.
type kitQuestion struct {
	Ask       string            `json:"ask"`               // open, start, call, stop, state, want, document, done
	Process   int               `json:"process,omitempty"` // of start, call and stop
	Request   json.RawMessage   `json:"request,omitempty"` // of call: one of the protocol
	Documents []json.RawMessage `json:"documents,omitempty"`
	Random    uint32            `json:"random,omitempty"`
	ID        string            `json:"id,omitempty"`
	Key       string            `json:"key,omitempty"`
	Failure   string            `json:"failure,omitempty"` // of done; "" says that the sink converges
}

// kitAnswer is the library's answer to a question.
type kitAnswer struct {
	Value json.RawMessage `json:"value"`
	Error string          `json:"error"`
}

// kit asks the library of a function, one question at a time. mu guards all fields.
type kit struct {
	mu        sync.Mutex
	answers   *bufio.Reader
	questions *json.Encoder
	processes int // that were started
}

// testCommand returns the command with which the library of a language tests a function by
// the seeds of [triggertest.Converges]. It speaks lines of JSON on its standard input and
// output.
func testCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "test",
		Short:  "Test a function by seeds, for the library of its language",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveKit(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func serveKit(ctx context.Context, in io.Reader, out io.Writer) error {
	k := &kit{answers: bufio.NewReaderSize(in, 1<<20), questions: json.NewEncoder(out)}
	line, err := k.answers.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("halley test is started by converges of a library: %w", err)
	}
	var s kitScenario
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return fmt.Errorf("the scenario: %w", err)
	}
	testing.Init() // triggertest asks for its flag -test.short
	if err := flag.CommandLine.Parse([]string{"-seed", strconv.FormatUint(s.Seed, 10)}); err != nil {
		return err
	}
	failure := k.converges(ctx, s)
	return k.questions.Encode(kitQuestion{Ask: "done", Failure: failure})
}

// converges runs a scenario and returns its failure, "" if there is none.
func (k *kit) converges(ctx context.Context, s kitScenario) string {
	r := &reporter{ctx: ctx}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		triggertest.Converges(r, k.scenario(s))
	}()
	<-ended
	return strings.ReplaceAll(r.failure(), "repeat it with -args -seed ", "repeat it with the seed ")
}

func (k *kit) scenario(s kitScenario) triggertest.Scenario {
	scenario := triggertest.Scenario{
		PartitionKey: s.PartitionKey, WriteOnce: s.WriteOnce, Seeds: s.Seeds, Open: k.open,
		Document: func(random *rand.Rand, id, key string) any {
			document, err := k.ask(kitQuestion{Ask: "document", Random: random.Uint32(), ID: id, Key: key})
			if err != nil {
				document = fmt.Appendf(nil, `{"id":%q,"error":%q}`, id, err.Error()) // the next question tells it, too
			}
			return document
		},
	}
	scenario.Function.SoftDeleteProperty, scenario.Function.BlockKeys = s.SoftDeleteProperty, s.BlockKeys
	if s.AllVersions {
		scenario.Function.ChangeFeedMode = cosmos.ModeAllVersions
	}
	if s.Want {
		scenario.Want = func(documents []json.RawMessage) any {
			want, err := k.value(kitQuestion{Ask: "want", Documents: documents})
			if err != nil {
				return fmt.Sprintf("want failed: %v", err)
			}
			return want
		}
	}
	return scenario
}

// open opens a sink of the library, in place of the last one.
func (k *kit) open(t testing.TB, _ *triggertest.World) triggertest.Sink {
	t.Helper()
	if _, err := k.ask(kitQuestion{Ask: "open"}); err != nil {
		t.Fatalf("open: %v", err)
	}
	return triggertest.Sink{
		Start: func() (trigger.Handler, func() error) {
			process := k.newProcess()
			if _, err := k.ask(kitQuestion{Ask: "start", Process: process}); err != nil {
				t.Errorf("start: %v", err)
			}
			handle := remote.Over(func(_ context.Context, request []byte) ([]byte, error) {
				return k.ask(kitQuestion{Ask: "call", Process: process, Request: request})
			})
			return handle, func() error {
				_, err := k.ask(kitQuestion{Ask: "stop", Process: process})
				return err
			}
		},
		State: func() any {
			state, err := k.value(kitQuestion{Ask: "state"})
			if err != nil {
				t.Fatalf("state: %v", err)
			}
			return state
		},
	}
}

func (k *kit) newProcess() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.processes++
	return k.processes
}

// ask returns the value of the library's answer, as JSON.
func (k *kit) ask(q kitQuestion) (json.RawMessage, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.questions.Encode(q); err != nil {
		return nil, err
	}
	line, err := k.answers.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the library has ended: %w", err)
	}
	var a kitAnswer
	if err := json.Unmarshal(line, &a); err != nil {
		return nil, err
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a.Value, nil
}

// value returns the value of the library's answer.
func (k *kit) value(q kitQuestion) (value any, err error) {
	text, err := k.ask(q)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	return value, err
}
