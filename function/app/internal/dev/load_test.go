package dev

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/standin/leaderboard"
	"halley/handlers"
	"halley/handlers/handlerstest/parallel"
	"halley/trigger/cosmos"
)

// Development runs mostly wait. They run at once, so most tests set no variable: settings of
// their own are presets.
func TestMain(m *testing.M) {
	apptest.CleanProcess()
	parallel.AtOnce(10)
	os.Exit(m.Run())
}

// presets are services that preset settings, pairs of names and values.
func presets(pairs ...string) func(context.Context) (*Services, error) {
	return func(context.Context) (*Services, error) {
		return &Services{Settings: apptest.Pairs(pairs...)}, nil
	}
}

// newProgram is an app of one handler or several.
func newProgram(name string, entries ...handlers.Entry) *Program {
	p := &Program{Program: hosting.Program{
		Name: name, Source: settings.Source{Handlers: entries},
		Stdout: io.Discard, // a run on a terminal takes that of the process
	}}
	p.SetDefaults()
	return p
}

// devApp is an app of two leaderboards whose development run has an embedded Redis and
// a load of game results, and presets that are pairs of names and values.
func devApp(pairs ...string) *Program {
	p := newProgram(apptest.Database,
		handlers.New("leaderboard", "keeps the best scores", leaderboard.Open),
		handlers.New("weekly", "keeps the best scores of a week", leaderboard.Open))
	p.Services = func(context.Context) (*Services, error) {
		s := startRedis()
		maps.Copy(s.Settings, apptest.Pairs(pairs...))
		return s, nil
	}
	return p
}

func startRedis() *Services {
	redis := leaderboard.Run()
	return &Services{
		Settings: map[string]string{
			"HALLEY_CONTAINER_NAME":        apptest.Results,
			"HALLEY_LEADERBOARD_REDIS_URL": "redis://" + redis.Addr(),
			"HALLEY_WEEKLY_REDIS_URL":      "redis://" + redis.Addr(),
		},
		Prepare: func(ctx context.Context, run *Run) error {
			for _, f := range run.Functions {
				if err := run.Create(ctx, Container{Database: f.Database, Name: f.Container, PartitionKey: []string{"/player"}, Ranges: 4}); err != nil {
					return err
				}
			}
			return nil
		},
		Load:    writeResults,
		Figures: func() map[string]int64 { return map[string]int64{"commands received": int64(redis.CommandCount())} },
		Close:   func() error { redis.Close(); return nil },
	}
}

// writeResults writes results of forty players, each third one twice.
func writeResults(ctx context.Context, run *Run) {
	id := strconv.FormatInt(time.Now().UnixNano(), 36)
	beat := time.NewTicker(time.Second / time.Duration(run.Rate))
	defer beat.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		for version := range 1 + n%3/2 {
			player := fmt.Sprint("player-", n%40)
			writeResult(ctx, run, fmt.Sprintf("%s-%d", id, n), player, n, version+1)
		}
	}
}

func writeResult(ctx context.Context, run *Run, id, player string, score, version int) {
	ctx = context.WithoutCancel(ctx)
	document := fmt.Sprintf(`{"id":%q,"player":%q,"game":"chess","score":%d,"version":%d}`, id, player, score, version)
	for _, container := range run.Monitored() {
		if _, err := container.Upsert(ctx, cosmos.NewPartitionKey(player), []byte(document)); err != nil {
			run.WriteFailed(err)
			return
		}
	}
	run.Wrote(id, version)
}
