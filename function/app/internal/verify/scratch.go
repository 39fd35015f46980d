package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// scratch are the database and the containers of a run, and what of them it has created.
// The goroutine of the run owns it.
type scratch struct {
	client   *cosmos.Client
	meter    *Meter
	run      string
	database string
	items    string // name of the monitored container
	leases   string

	madeDatabase bool
	made         []string // containers
}

// versionsKept is the retention of all versions in a container that the run creates.
const versionsKept = 10 * time.Minute

// create creates the database, if it does not exist, and the two containers.
func (s *scratch) create(ctx context.Context) error {
	// A throughput that the containers share costs less than one for each; an account
	// without provisioned throughput refuses it.
	err := s.client.CreateDatabase(with(ctx, http.MethodPost, map[string]string{"X-Ms-Offer-Throughput": "400"}, nil), s.database)
	if status, _ := cosmos.Status(err); status == http.StatusBadRequest {
		err = s.client.CreateDatabase(ctx, s.database)
	}
	switch unsure := errors.Is(err, cosmos.ErrOutcomeUnknown) && s.database == s.run; { // no other run has that name
	case unsure:
		s.madeDatabase = true
		return fmt.Errorf("create the database %s: %w", s.database, err)
	case err == nil:
		s.madeDatabase = true
	case !cosmos.IsConflict(err):
		return fmt.Errorf("create the database %s: %w", s.database, err)
	}
	ttl := -1
	monitored := cosmos.ContainerDefinition{ID: s.items, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/pk"}}, DefaultTTL: &ttl, Retention: versionsKept}
	err = s.client.CreateContainer(ctx, s.database, monitored)
	if status, _ := cosmos.Status(err); status == http.StatusBadRequest { // no continuous backup, so no versions
		monitored.Retention = 0
		err = s.client.CreateContainer(ctx, s.database, monitored)
	}
	if err := s.noteMade(s.items, err); err != nil {
		return err
	}
	_, err = s.add(ctx, s.leases, "/id", 0)
	return err
}

// createContainer creates a further container. Its name is the id of the run with a suffix.
func (s *scratch) createContainer(ctx context.Context, suffix, keyPath string, unitsPerSecond int) (*cosmos.Container, error) {
	return s.add(ctx, s.run+suffix, keyPath, unitsPerSecond)
}

func (s *scratch) add(ctx context.Context, name, keyPath string, unitsPerSecond int) (*cosmos.Container, error) {
	definition := cosmos.ContainerDefinition{ID: name, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{keyPath}}, Throughput: unitsPerSecond}
	if err := s.noteMade(name, s.client.CreateContainer(ctx, s.database, definition)); err != nil {
		return nil, err
	}
	return s.client.Container(s.database, name), nil
}

// noteMade notes a container that the run has created, or may have created, with the error
// of its creation. Names of containers hold the id of the run.
func (s *scratch) noteMade(name string, err error) error {
	if err == nil || errors.Is(err, cosmos.ErrOutcomeUnknown) {
		s.made = append(s.made, name)
	}
	if err != nil {
		return fmt.Errorf("create the container %s: %w", name, err)
	}
	return nil
}

// deleteContainer deletes a container that the run has created.
func (s *scratch) deleteContainer(ctx context.Context, name string) error {
	if err := s.client.DeleteContainer(ctx, s.database, name); err != nil && !cosmos.IsNotFound(err) {
		return err
	}
	for i, made := range s.made {
		if made == name {
			s.made = append(s.made[:i], s.made[i+1:]...)
			break
		}
	}
	return nil
}

// cleanupTime bounds the cleanup, also after Ctrl-C.
const cleanupTime = time.Minute

// cleanup deletes what the run has created, and nothing else.
func (s *scratch) cleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	s.meter.finish()
	if s.madeDatabase {
		if err := s.client.DeleteDatabase(ctx, s.database); err != nil && !cosmos.IsNotFound(err) {
			return err
		}
		s.madeDatabase, s.made = false, nil
		return nil
	}
	var failures []error
	for _, name := range append([]string(nil), s.made...) {
		failures = append(failures, s.deleteContainer(ctx, name))
	}
	for _, name := range []string{s.items, s.leases} {
		failures = append(failures, s.deleteDocuments(ctx, name))
	}
	return errors.Join(failures...)
}

// deleteDocuments deletes the documents of the run in a container that it did not create.
func (s *scratch) deleteDocuments(ctx context.Context, name string) error {
	container := s.client.Container(s.database, name)
	for _, d := range s.meter.leftovers(name) {
		if err := ctx.Err(); err != nil {
			return err
		}
		keyed := with(ctx, http.MethodDelete, map[string]string{"X-Ms-Documentdb-Partitionkey": d.key}, nil)
		if _, err := container.Delete(keyed, d.id, cosmos.NewPartitionKey(d.id), ""); err != nil && !cosmos.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// byHand says what to delete if the cleanup could not.
func (s *scratch) byHand() string {
	switch {
	case s.madeDatabase:
		return fmt.Sprintf("delete the database %s by hand", s.database)
	case len(s.made) > 0:
		return fmt.Sprintf("delete the containers %s of the database %s by hand", strings.Join(s.made, ", "), s.database)
	}
	return fmt.Sprintf("delete the documents whose id or function begins with %s from the containers %s and %s of the database %s by hand", s.run, s.items, s.leases, s.database)
}
