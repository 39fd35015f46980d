package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// processor is the lease prefix of Halley, and KEDA's processor name.
const processor = "scores"

// view is the lag in transactions that KEDA or Halley reports: the sum, and by lease
// token if the reporter has it.
type view struct {
	Lag    int64
	Active bool // KEDA reports that a replica is needed
	Leases map[string]int64
}

// kedaSees runs the scaler. The threshold is so high that the number of ranges
// never limits the metric.
func kedaSees(ctx context.Context, f *feed) (view, error) {
	c := exec.CommandContext(ctx, os.Getenv("OUTSIDE_SCALER"),
		"databaseId="+database, "containerId="+f.items.Name(), "leaseDatabaseId="+database, "leaseContainerId="+f.leases.Name(),
		"processorName="+processor, "changeFeedLagThreshold=1000000000")
	c.Env = append(os.Environ(), "OUTSIDE_CONNECTION="+f.connection)
	var v view
	return v, ask(c, &v)
}

// halleySees runs halley status.
func halleySees(ctx context.Context, f *feed) (view, error) {
	c := exec.CommandContext(ctx, os.Getenv("HALLEY"), "status", "--json")
	c.Env = append(os.Environ(),
		"CosmosDB="+f.connection,
		"HALLEY_FUNCTIONS=leaderboard",
		"HALLEY_DATABASE_NAME="+database,
		"HALLEY_CONTAINER_NAME="+f.items.Name(),
		"HALLEY_LEASE_CONTAINER_NAME="+f.leases.Name(),
		"HALLEY_LEASE_CONTAINER_PREFIX="+processor,
		"HALLEY_START_FROM=beginning")
	var status struct {
		Transactions int64
		Functions    []struct {
			Leases []struct {
				Range        string
				Transactions int64
			}
		}
	}
	err := ask(c, &status)
	v := view{Lag: status.Transactions, Active: status.Transactions > 0, Leases: map[string]int64{}}
	for _, f := range status.Functions {
		for _, l := range f.Leases {
			v.Leases[l.Range] = l.Transactions
		}
	}
	return v, err
}

// ask runs a command and decodes its output.
func ask(c *exec.Cmd, answer any) error {
	var messages bytes.Buffer
	c.Stderr = &messages
	out, err := c.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 && json.Valid(out) {
		err = nil // exit code 1 with valid output: the status is incomplete
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s%s", c.Path, err, out, messages.Bytes())
	}
	return json.Unmarshal(out, answer)
}
