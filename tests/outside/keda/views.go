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

// processor is the name under which the leases are, for both.
const processor = "scores"

// view is the lag in changes as somebody sees it: in all, and where it is known,
// by lease token.
type view struct {
	Lag    int64
	Active bool // of KEDA: that there should be a replica
	Leases map[string]int64
}

// kedaSees asks the scaler. Its threshold is so high that it never bounds the
// metric by the number of ranges.
func kedaSees(ctx context.Context, f *feed) (view, error) {
	c := exec.CommandContext(ctx, os.Getenv("OUTSIDE_SCALER"),
		"databaseId="+database, "containerId="+f.items.Name(), "leaseDatabaseId="+database, "leaseContainerId="+f.leases.Name(),
		"processorName="+processor, "changeFeedLagThreshold=1000000000")
	c.Env = append(os.Environ(), "OUTSIDE_CONNECTION="+f.connection)
	var v view
	return v, ask(c, &v)
}

// halleySees asks halley status.
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
		Changes   int64
		Functions []struct {
			Leases []struct {
				Range   string
				Changes int64
			}
		}
	}
	err := ask(c, &status)
	v := view{Lag: status.Changes, Active: status.Changes > 0, Leases: map[string]int64{}}
	for _, f := range status.Functions {
		for _, l := range f.Leases {
			v.Leases[l.Range] = l.Changes
		}
	}
	return v, err
}

// ask runs a command and decodes what it prints.
func ask(c *exec.Cmd, answer any) error {
	var trouble bytes.Buffer
	c.Stderr = &trouble
	out, err := c.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 && json.Valid(out) {
		err = nil // an answer that says that not all is known
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s%s", c.Path, err, out, trouble.Bytes())
	}
	return json.Unmarshal(out, answer)
}
