package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"halley/handlers/search/bleve"
)

// startSearch keeps the index in a directory that is removed at the end.
func startSearch(s *stage) (*part, error) {
	directory, err := os.MkdirTemp("", "halley-search")
	if err != nil {
		return nil, err
	}
	s.onClose(func() error { return os.RemoveAll(directory) })
	return &part{
		settings: map[string]string{"HALLEY_SEARCH_DIRECTORY": directory + "/index"},
		read: func(ctx context.Context) (found versions, err error) {
			index := bleve.New(directory+"/index", nil)
			defer func() { err = errors.Join(err, index.Close()) }()
			hits, err := index.Search(ctx, "*", 1000)
			found = versions{}
			for _, h := range hits {
				err = errors.Join(err, found.add(h.Document))
			}
			return found, err
		},
		compare: func(ctx context.Context, written []document) (text string, err error) {
			index := bleve.New(directory+"/index", nil)
			defer func() { err = errors.Join(err, index.Close()) }()
			indexed, queries := versions{}, bestScores(written)
			for name := range queries {
				hits, err := index.Search(ctx, "+game:"+name, len(written)+1)
				if err != nil {
					return "", err
				}
				for _, h := range hits {
					if err := indexed.add(h.Document); err != nil {
						return "", err
					}
				}
			}
			return fmt.Sprintf("%d queries of the Bleve index find the last version of all %d documents, and no other", len(queries), len(written)), indexed.equal(written)
		},
	}, nil
}
