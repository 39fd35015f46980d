package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"go.uber.org/zap"

	"halley/trigger"
	"halley/trigger/deadletter"
)

// storeKind is one kind of dead letter store, as HALLEY_DEAD_LETTERS names it.
type storeKind struct {
	kind string
	// placeholder stands for the store's name in texts; "" if the kind has none.
	placeholder string
	// optional: the name may be left out.
	optional bool
	// checkName returns an error that says how a name is written.
	checkName func(name string) error
	// keeps: dead letters can be read again. If not, note tells halley check why.
	keeps bool
	note  string
	// inCosmos: a container in the lease database; onDisk: a directory of this
	// machine; onStorage: needs a connection to an Azure Storage account.
	inCosmos, onDisk, onStorage bool
	// placeholderStore stands for the store while settings are validated.
	placeholderStore trigger.DeadLetters
	// open makes the store. Only a directory is I/O.
	open func(a accounts, f functionSettings, log *zap.Logger) (trigger.DeadLetters, error)
}

// storeKinds lists the kinds; a further one is a further row.
func storeKinds() []storeKind {
	return []storeKind{{
		kind: "container", placeholder: "NAME", optional: true, checkName: checkContainerName,
		keeps: true, inCosmos: true, placeholderStore: unopened{}, open: openContainerStore,
	}, {
		kind: "directory", placeholder: "PATH", checkName: checkPath,
		keeps: true, onDisk: true, placeholderStore: unopened{}, open: openDirectoryStore,
	}, {
		kind: "blob", placeholder: "CONTAINER", checkName: checkStorageName,
		keeps: true, onStorage: true, placeholderStore: unopened{}, open: openBlobStore,
	}, {
		kind: "queue", placeholder: "NAME", checkName: checkStorageName,
		keeps: true, onStorage: true, placeholderStore: unopened{}, open: openQueueStore,
	}, {
		kind: "drop", note: "a change that is given up is lost",
		placeholderStore: trigger.DropDeadLetters,
		open: func(accounts, functionSettings, *zap.Logger) (trigger.DeadLetters, error) {
			return trigger.DropDeadLetters, nil
		},
	}, {
		kind: "none", note: "a change that fails blocks its range until it succeeds",
		open: func(accounts, functionSettings, *zap.Logger) (trigger.DeadLetters, error) { return nil, nil },
	}}
}

// unopened stands for a store that keeps dead letters: rules and defaults depend
// on whether there is one.
type unopened struct{ trigger.DeadLetters }

// storeSetting is a value of HALLEY_DEAD_LETTERS: a kind, and for some kinds a name.
type storeSetting struct{ kind, name string }

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (s *storeSetting) Decode(text string) error {
	if text == "" {
		return nil
	}
	if text == "discard" { // until it was renamed
		return errors.New("discard is now drop")
	}
	kind, name, named := strings.Cut(text, ":")
	row, ok := findKind(kind)
	switch {
	case !ok:
		return fmt.Errorf("not a dead letter store: write %s", kindList())
	case !named && row.placeholder != "" && !row.optional:
		return fmt.Errorf("%s needs a name: write %s:%s", kind, kind, row.placeholder)
	case named && row.placeholder == "":
		return fmt.Errorf("%s has no name: write %s", kind, kind)
	case named:
		if err := row.checkName(name); err != nil {
			return fmt.Errorf("%w: write %s:%s", err, kind, row.placeholder)
		}
	}
	if row.onDisk {
		name = filepath.Clean(name)
	}
	*s = storeSetting{kind, name}
	return nil
}

func (s storeSetting) String() string {
	if s.name == "" {
		return s.kind
	}
	return s.kind + ":" + s.name
}

// row returns the setting's kind. The zero setting, before its default is set,
// has none.
func (s storeSetting) row() storeKind {
	row, _ := findKind(s.kind)
	return row
}

func findKind(kind string) (storeKind, bool) {
	for _, row := range storeKinds() {
		if row.kind == kind {
			return row, true
		}
	}
	return storeKind{}, false
}

// kindList lists how every kind is written.
func kindList() string {
	var forms []string
	for _, row := range storeKinds() {
		if row.placeholder == "" || row.optional {
			forms = append(forms, row.kind)
		}
		if row.placeholder != "" {
			forms = append(forms, row.kind+":"+row.placeholder)
		}
	}
	last := len(forms) - 1
	return strings.Join(forms[:last], ", ") + " or " + forms[last]
}

// storageName matches names that Azure Storage accepts for containers and queues:
// https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
var storageName = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`)

func checkStorageName(name string) error {
	if !storageName.MatchString(name) || len(name) > 63 {
		return errors.New("not a name of 3 to 63 lower-case letters, digits and single hyphens, as Azure Storage accepts it")
	}
	return nil
}

func checkContainerName(name string) error {
	if name == "" || strings.ContainsAny(name, `/\?#`) {
		return errors.New("not the name of a container")
	}
	return nil
}

func checkPath(path string) error {
	if path == "" {
		return errors.New("not the path of a directory")
	}
	return nil
}

// deadLetterContainer returns the Cosmos DB container of the dead letters, if
// they are stored in one.
func (f *functionSettings) deadLetterContainer() (in place, ok bool) {
	if !f.DeadLetters.row().inCosmos {
		return place{}, false
	}
	in = f.leases()
	if f.DeadLetters.name != "" {
		in.container = f.DeadLetters.name
	}
	return in, true
}

// openDeadLetters makes the function's store of dead letters; nil is none.
func (a accounts) openDeadLetters(f functionSettings, log *zap.Logger) (trigger.DeadLetters, error) {
	row, ok := findKind(f.DeadLetters.kind)
	if !ok {
		return nil, fmt.Errorf("%s=%s: not a dead letter store: write %s", f.setting("DEAD_LETTERS"), f.DeadLetters, kindList())
	}
	store, err := row.open(a, f, log)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", f.setting("DEAD_LETTERS"), f.DeadLetters, err)
	}
	return store, nil
}

func openContainerStore(a accounts, f functionSettings, _ *zap.Logger) (trigger.DeadLetters, error) {
	in, _ := f.deadLetterContainer()
	client, err := a.client(in.connection, f.PreferredLocations)
	if err != nil {
		return nil, err
	}
	return deadletter.NewContainer(client.Container(in.database, in.container), nil)
}

func openDirectoryStore(_ accounts, f functionSettings, log *zap.Logger) (trigger.DeadLetters, error) {
	path := f.DeadLetters.name
	return deadletter.NewDirectory(path, &deadletter.DirectoryOptions{Report: func(err error) {
		log.Error("dead letters are damaged", zap.String("directory", path), zap.Error(err))
	}})
}

func openBlobStore(_ accounts, f functionSettings, _ *zap.Logger) (trigger.DeadLetters, error) {
	s, err := f.deadLetterStorage()
	if err != nil {
		return nil, err
	}
	return s.blobStore(f.DeadLetters.name)
}

// openQueueStore stores the dead letters in a blob container of the queue's name.
func openQueueStore(_ accounts, f functionSettings, _ *zap.Logger) (trigger.DeadLetters, error) {
	s, err := f.deadLetterStorage()
	if err != nil {
		return nil, err
	}
	blobs, err := s.blobStore(f.DeadLetters.name)
	if err != nil {
		return nil, err
	}
	queue, err := s.queue(f.DeadLetters.name)
	if err != nil {
		return nil, err
	}
	return deadletter.NewQueue(blobs, queue, nil)
}

// deadLetterStorage resolves the connection to the Azure Storage account.
func (f *functionSettings) deadLetterStorage() (storage, error) {
	s, err := resolveStorage(f.DeadLettersConnection)
	if err != nil {
		return s, fmt.Errorf("%s=%s: %w", f.setting("DEAD_LETTERS_CONNECTION"), f.DeadLettersConnection, err)
	}
	return s, nil
}

func (s *storage) blobStore(name string) (*deadletter.Blob, error) {
	container, err := s.blobContainer(name)
	if err != nil {
		return nil, err
	}
	return deadletter.NewBlob(container, nil)
}

// separateDeadLetters refuses dead letters in a monitored container, because each
// of them would be a change.
func (s *settings) separateDeadLetters() error {
	var errs []error
	for _, f := range s.Functions {
		in, ok := f.deadLetterContainer()
		if !ok {
			continue
		}
		for _, other := range s.Functions {
			if other.monitors() == in && other.ContainerName != "" {
				errs = append(errs, fmt.Errorf("%s=%s is the monitored container of %s: keep dead letters in another",
					f.setting("DEAD_LETTERS"), f.DeadLetters, other.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// storageNamed refuses dead letters in an Azure Storage account without a
// connection.
func (f *functionSettings) storageNamed() error {
	if !f.DeadLetters.row().onStorage || f.DeadLettersConnection != "" {
		return nil
	}
	return fmt.Errorf("%s=\"\": %s=%v needs an Azure Storage account: name its connection",
		f.setting("DEAD_LETTERS_CONNECTION"), f.setting("DEAD_LETTERS"), f.DeadLetters)
}
