package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"halley/function/app"
)

// viewTable is dropped at the start of a run, and kept at the end.
const viewTable = "halley_showcase"

// startView keeps a view with totals by game in the PostgreSQL of the setting.
func startView(*stage) (*part, error) {
	url := os.Getenv("HALLEY_VIEW_POSTGRES_URL")
	return &part{
		settings: map[string]string{
			"HALLEY_VIEW_TABLE": viewTable, "HALLEY_VIEW_CREATE_TABLES": "true", "HALLEY_VIEW_GROUP_BY": "game", "HALLEY_VIEW_SUM": "score",
			"HALLEY_VIEW_COLUMNS": "game=/game,player=/player,score=/score numeric,version=/version bigint",
		},
		prepare: func(ctx context.Context, _ *app.DevRun) error {
			return query(ctx, url, func(c *pgx.Conn) error {
				_, err := c.Exec(ctx, fmt.Sprintf("DROP TABLE IF EXISTS %[1]s, %[1]s_positions, %[1]s_totals", viewTable))
				return err
			})
		},
		read: func(ctx context.Context) (found versions, err error) {
			err = query(ctx, url, func(c *pgx.Conn) error {
				found, err = readView(ctx, c)
				return err
			})
			return found, err
		},
		compare: func(ctx context.Context, written []document) (text string, err error) {
			err = query(ctx, url, func(c *pgx.Conn) error {
				text, err = compareView(ctx, c, written)
				return err
			})
			return text, err
		},
	}, nil
}

// query makes a connection for some queries.
func query(ctx context.Context, url string, do func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return do(c)
}

type total struct {
	documents int64
	score     float64
}

func readView(ctx context.Context, c *pgx.Conn) (versions, error) {
	rows, err := c.Query(ctx, "SELECT id, coalesce(version, 0) FROM "+viewTable)
	if err != nil {
		return nil, err
	}
	found := versions{}
	var id string
	var version int
	_, err = pgx.ForEachRow(rows, []any{&id, &version}, func() error { found[id] = version; return nil })
	return found, err
}

func compareView(ctx context.Context, c *pgx.Conn, written []document) (string, error) {
	found, err := readView(ctx, c)
	if err != nil {
		return "", err
	}
	if err := found.equal(written); err != nil {
		return "", err
	}
	want := map[string]total{}
	for _, d := range written {
		want[d.Game] = total{want[d.Game].documents + 1, want[d.Game].score + d.Score}
	}
	rows, err := c.Query(ctx, "SELECT game, documents, sum_score::float8 FROM "+viewTable+"_totals WHERE documents > 0")
	if err != nil {
		return "", err
	}
	var name string
	var t total
	_, err = pgx.ForEachRow(rows, []any{&name, &t.documents, &t.score}, func() error {
		if t != want[name] {
			return fmt.Errorf("the totals of %s are %v, those of the container %v", name, t, want[name])
		}
		delete(want, name)
		return nil
	})
	if err == nil && len(want) > 0 {
		err = fmt.Errorf("the view has no totals for %v", want)
	}
	return fmt.Sprintf("table %s of PostgreSQL has the last version of all %d documents, and its totals by game are exact", viewTable, len(written)), err
}
