// Client is a process that a benchmark measures: Halley in one of several modes of
// use, or a lower bound that does the same with net/http alone. It reads its settings
// from the environment, works against the server of the benchmark, and prints its
// figures as one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/kelseyhightower/envconfig"

	"halley/trigger/cosmos"
)

// settings are the variables BENCH_ENDPOINT, BENCH_KEY and so on.
type settings struct {
	Endpoint   string
	Key        string
	Mode       string        `required:"true"`
	Changes    int           // to read in all; 0 is all that the feed has
	Ranges     int           `default:"1"`   // of the container items
	Page       int           `default:"100"` // items in a page and in a batch; 0 are the defaults of the runtime
	Lanes      int           `default:"1"`
	Reuse      bool          // Function.ReuseBuffers
	Functions  int           `default:"1"` // on the container; each gets all changes
	Hosts      int           `default:"1"` // that share the ranges
	Handler    time.Duration // how long a handler call takes
	Poll       time.Duration `default:"5s"`  // of idle ranges
	Renew      time.Duration `default:"17s"` // of their leases
	Rate       int           `default:"100"`
	Windows    int           `default:"5"` // consecutive measurements
	Window     time.Duration `default:"5s"`
	Limit      time.Duration `default:"30s"` // of waits, after which the figures say how far the client got
	Poison     bool          // poison documents fail
	Whole      bool          // wait for all rows, not only for those of keys without a poison document
	Name       string        // of the function, if several processes have it
	Record     string        // file of the rows that were handled; "" writes none
	Expiration time.Duration // of leases; 0 is the default
	Command    string        // of a function in another language
	Profile    string        // file for a profile of the processor time; "" writes none
}

// figures are the results of a process, by name. Names end in their unit if they
// have one.
type figures map[string]float64

// modes are the things that a client can do.
var modes = map[string]func(context.Context, settings) (figures, error){
	"floor":            floorRead,
	"floor-idle":       floorIdle,
	"floor-checkpoint": floorCheckpoint,
	"floor-poll":       floorPoll,
	"bare-poll":        barePoll,
	"poll":             pollFeed,
	"read":             readFeed,
	"runtime":          drainFeed,
	"official":         officialPattern,
	"inturn":           inTurn,
	"idle":             idleRanges,
	"tick":             timerTicks,
	"acquire":          acquireRanges,
	"memory":           slowHandlers,
	"latency":          busyRange,
	"restart":          rollingRestart,
	"write":            writeItems,
	"checkpoint":       replaceLease,
	"typed":            typedHandlers,
	"damage":           damagedPages,
	"poison":           poisonRows,
	"function":         drainToFunction,
}

func main() {
	log.SetFlags(0)
	var s settings
	if err := envconfig.Process("bench", &s); err != nil {
		log.Fatal(err)
	}
	run, ok := modes[s.Mode]
	if !ok {
		log.Fatalf("BENCH_MODE is %q: choose from %q", s.Mode, slices.Sorted(maps.Keys(modes)))
	}
	stop, err := startProfile(s.Profile)
	if err != nil {
		log.Fatalf("BENCH_PROFILE: %v", err)
	}
	found, err := run(context.Background(), s)
	if err := errors.Join(err, stop()); err != nil {
		log.Fatalf("%s: %v", s.Mode, err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

// startProfile writes a profile of the processor time to a file until stop is called.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

// containers returns the containers of the benchmark, through a client of Halley.
func (s settings) containers() (items, leases *cosmos.Container, err error) {
	credential, err := cosmos.KeyCredential(s.Key)
	if err != nil {
		return nil, nil, err
	}
	client, err := cosmos.NewClient(s.Endpoint, credential, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("BENCH_ENDPOINT: %w", err)
	}
	return client.Container("bench", "items"), client.Container("bench", "leases"), nil
}
