package lease

import (
	"errors"
	"log/slog"
	"strings"
	"time"
)

// Unreadable is a document that is not a lease, under the prefix of the function: no host
// reads the feed of its range.
type Unreadable struct {
	Token string    // of the range, as its id says
	Since time.Time // when this host first listed it, on the service's clock
	Invalid
}

// noteInvalid compares the invalid documents of a list with those of the list before. The
// log tells of each once, until its error changes or it can be read again.
func (s *Set) noteInvalid(invalid []Invalid) {
	listed := make(map[string]Unreadable, len(invalid))
	for _, i := range invalid {
		u := Unreadable{Token: strings.TrimPrefix(i.ID, s.store.idPrefix+".."), Since: s.Now(), Invalid: i}
		previous, known := s.unreadable[i.ID]
		if known {
			u.Since = previous.Since
		}
		switch {
		case known && previous.Err.Error() == i.Err.Error():
		case errors.Is(i.Err, ErrNewerForm):
			s.cfg.Log.Warn("lease document is left to a newer version of Halley", slog.String("id", i.ID), slog.Any("error", i.Err))
		default:
			s.cfg.Log.Error("lease document is not readable: no host reads its range; repair or delete the document",
				slog.String("id", i.ID), slog.Any("error", i.Err))
		}
		listed[i.ID] = u
	}
	for id := range s.unreadable {
		if _, isListed := listed[id]; !isListed {
			s.cfg.Log.Info("lease document that was not readable is repaired or deleted", slog.String("id", id))
		}
	}
	s.unreadable = listed
}

// Unreadable returns the documents that are not leases, as [Set.Candidates] last saw them. The
// goroutine that calls Candidates calls it.
func (s *Set) Unreadable() []Unreadable {
	var list []Unreadable
	for _, u := range s.unreadable {
		list = append(list, u)
	}
	return list
}
