//go:build !nodev

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"halley/function/app"
	"halley/handlers/search/bleve"
)

// startDev presets an index for the command dev, which asks it at the end.
func startDev(context.Context) (*app.DevServices, error) {
	scratch, err := os.MkdirTemp("", "catalogue")
	if err != nil {
		return nil, err
	}
	directory := filepath.Join(scratch, "index")
	return &app.DevServices{
		Settings: map[string]string{
			"HALLEY_CONTAINER_NAME":              "products",
			"HALLEY_SEARCH_DIRECTORY":            directory,
			"HALLEY_SEARCH_SOFT_DELETE_PROPERTY": "deleted",
		},
		Close: func() error { return errors.Join(ask(directory, "tea"), os.RemoveAll(scratch)) },
	}, nil
}

// ask prints the names of the products that a query finds. If no product was indexed,
// there is no index to ask.
func ask(directory, query string) error {
	if _, err := os.Stat(directory); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	names, err := find(context.Background(), directory, query)
	fmt.Fprintf(os.Stderr, "search %q finds %q\n", query, names)
	return err
}

// find returns the ids of the products that a query finds, the best first.
func find(ctx context.Context, directory, query string) (ids []string, err error) {
	index := bleve.New(directory, nil)
	hits, err := index.Search(ctx, query, 10)
	for _, h := range hits {
		ids = append(ids, h.ID)
	}
	return ids, errors.Join(err, index.Close())
}
