// Package postgrestest gives tests a schema of their own in the database of
// HALLEY_TEST_POSTGRES_URL. Only tests import this package.
package postgrestest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schemas counts the schemas of this process.
var schemas atomic.Int64

// Schema makes an empty schema and returns a URL whose connections use it, and a pool of
// them. Both end with the test. If HALLEY_TEST_POSTGRES_URL is not set, the test is
// skipped.
func Schema(t testing.TB) (string, *pgxpool.Pool) {
	t.Helper()
	database := os.Getenv("HALLEY_TEST_POSTGRES_URL")
	if database == "" {
		t.Skip("HALLEY_TEST_POSTGRES_URL is not set: no PostgreSQL to test with")
	}
	name := fmt.Sprintf("halley_test_%d_%d_%d", time.Now().UnixNano(), os.Getpid(), schemas.Add(1))
	execute(t, database, "CREATE SCHEMA "+name)
	t.Cleanup(func() { execute(t, database, "DROP SCHEMA "+name+" CASCADE") })
	parsed, err := url.Parse(database)
	if err != nil {
		t.Fatal("HALLEY_TEST_POSTGRES_URL is not a URL")
	}
	query := parsed.Query()
	query.Set("search_path", name)
	parsed.RawQuery = query.Encode()
	pool, err := pgxpool.New(t.Context(), parsed.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return parsed.String(), pool
}

func execute(t testing.TB, database, statement string) {
	t.Helper()
	ctx := context.Background() // also at the end of the test
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
	if err := conn.Close(ctx); err != nil {
		t.Error(err)
	}
}
