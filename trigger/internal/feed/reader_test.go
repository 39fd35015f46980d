package feed

import (
	"testing"

	"halley/trigger/cosmos"
)

func TestSnapshotEndsAtItsPosition(t *testing.T) {
	page := func(continuation string, lsns ...int64) *Page {
		p := &Page{Continuation: continuation}
		for _, lsn := range lsns {
			p.Items = append(p.Items, cosmos.Item{LSN: lsn})
		}
		return p
	}
	unchanged := func(continuation string, session int64) *Page {
		return &Page{NotModified: true, Continuation: continuation, SessionLSN: session}
	}
	for name, test := range map[string]struct {
		page         *Page
		isPassed     bool
		items        int
		continuation string
	}{
		"before it":                          {page(`"8"`, 7, 8), false, 2, `"8"`},
		"up to it":                           {page(`"10"`, 9, 10), true, 2, `"10"`},
		"across it":                          {page(`"12"`, 9, 11, 12), true, 1, `"10"`},
		"behind it":                          {page(`"12"`, 11, 12), true, 0, `"10"`},
		"an etag behind it":                  {page(`"30"`, 9), true, 1, `"10"`},
		"nothing new":                        {unchanged(`"10"`, 10), true, 0, `"10"`},
		"nothing new, an etag of the past":   {unchanged(`"8"`, 11), true, 0, `"8"`},
		"nothing new, a replica that lags":   {unchanged(`"8"`, 8), false, 0, `"8"`},
		"nothing new, and a session unknown": {unchanged(`"8"`, 0), false, 0, `"8"`},
	} {
		t.Run(name, func(t *testing.T) {
			if isPassed := cutAt(test.page, `"10"`); isPassed != test.isPassed || len(test.page.Items) != test.items || test.page.Continuation != test.continuation {
				t.Errorf("passed %v with %d changes at %s, want %v, %d, %s", isPassed, len(test.page.Items), test.page.Continuation, test.isPassed, test.items, test.continuation)
			}
		})
	}
}
