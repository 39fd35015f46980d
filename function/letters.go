package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"go.uber.org/zap"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter"
)

// letters says where dead letters go: a kind, and for some kinds a name.
type letters struct{ kind, name string }

// Kinds of dead letter stores.
const (
	lettersContainer = "container" // of Cosmos DB; without a name the leases'
	lettersDirectory = "directory"
	lettersBlob      = "blob"
	lettersQueue     = "queue"
	lettersDrop      = "drop"
	lettersNone      = "none"
)

// storageName is what Azure Storage takes for containers and queues:
// https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
var storageName = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`)

// Decode implements [envconfig.Decoder]; an empty value leaves the default.
func (l *letters) Decode(s string) error {
	if s == "" {
		return nil
	}
	kind, name, named := strings.Cut(s, ":")
	switch kind {
	case lettersContainer:
		if named && (name == "" || strings.ContainsAny(name, `/\?#`)) {
			return errors.New("not the name of a container: write container:NAME, or container for the lease container")
		}
	case lettersDirectory:
		if name == "" {
			return errors.New("no directory: write directory:PATH")
		}
		name = filepath.Clean(name)
	case lettersBlob, lettersQueue:
		if !storageName.MatchString(name) || len(name) > 63 {
			return fmt.Errorf("not a name that Azure Storage takes: write %s:NAME with 3 to 63 small letters, digits and single hyphens", kind)
		}
	case lettersDrop, lettersNone:
		if named {
			return fmt.Errorf("%s has no name: write %s", kind, kind)
		}
	case "discard":
		return errors.New("discard is now drop")
	default:
		return errors.New("not a dead letter store: write container, container:NAME, directory:PATH, blob:CONTAINER, queue:NAME, drop or none")
	}
	*l = letters{kind, name}
	return nil
}

func (l letters) String() string {
	if l.name == "" {
		return l.kind
	}
	return l.kind + ":" + l.name
}

// keeps reports whether letters are there to be read again.
func (l letters) keeps() bool { return l.kind != lettersDrop && l.kind != lettersNone }

// onStorage reports whether the store is in an Azure Storage account.
func (l letters) onStorage() bool { return l.kind == lettersBlob || l.kind == lettersQueue }

// placeholder stands for the store until it is opened: rules and defaults depend
// on whether there is one.
func (l letters) placeholder() trigger.DeadLetters {
	switch l.kind {
	case lettersNone:
		return nil
	case lettersDrop:
		return trigger.DropDeadLetters
	}
	return unopened{}
}

type unopened struct{ trigger.DeadLetters }

// lettersIn is the Cosmos DB container of the dead letters, if they go to one.
func (f *functionSettings) lettersIn() (in place, ok bool) {
	if f.DeadLetters.kind != lettersContainer {
		return place{}, false
	}
	in = f.leases()
	if f.DeadLetters.name != "" {
		in.container = f.DeadLetters.name
	}
	return in, true
}

// openLetters makes the function's store of dead letters; nil is none. Only a
// directory is I/O.
func (a accounts) openLetters(f functionSettings, log *zap.Logger) (store trigger.DeadLetters, err error) {
	switch l := f.DeadLetters; l.kind {
	case lettersNone:
		return nil, nil
	case lettersDrop:
		return trigger.DropDeadLetters, nil
	case lettersContainer:
		in, _ := f.lettersIn()
		var client *cosmos.Client
		if client, err = a.client(in.connection, f.PreferredLocations); err == nil {
			store, err = deadletter.NewContainer(client.Container(in.database, in.container), nil)
		}
	case lettersDirectory:
		store, err = deadletter.NewDirectory(l.name, &deadletter.DirectoryOptions{Report: func(err error) {
			log.Error("dead letters are damaged", zap.String("directory", l.name), zap.Error(err))
		}})
	default:
		if store, err = openStorageLetters(f.DeadLettersConnection, l); err != nil {
			err = fmt.Errorf("%s=%s: %w", f.setting("DEAD_LETTERS_CONNECTION"), f.DeadLettersConnection, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", f.setting("DEAD_LETTERS"), f.DeadLetters, err)
	}
	return store, nil
}

// openStorageLetters makes a store in the Azure Storage account of a
// connection. The letters of a queue are in a blob container of its name.
func openStorageLetters(connection connectionName, l letters) (trigger.DeadLetters, error) {
	s, err := resolveStorage(connection)
	if err != nil {
		return nil, err
	}
	container, err := s.blobContainer(l.name)
	if err != nil {
		return nil, err
	}
	blob, err := deadletter.NewBlob(container, nil)
	if err != nil || l.kind == lettersBlob {
		return blob, err
	}
	queue, err := s.queue(l.name)
	if err != nil {
		return nil, err
	}
	return deadletter.NewQueue(blob, queue, nil)
}

// separateLetters refuses dead letters in a monitored container, where each is
// a change, and functions whose letters could not be told apart.
func (s *settings) separateLetters() error {
	type owner struct{ in, prefix any }
	owners := map[owner]string{}
	var errs []error
	for _, f := range s.Functions {
		if !f.DeadLetters.keeps() {
			continue
		}
		var in any = [2]string{f.DeadLetters.String(), string(f.DeadLettersConnection)}
		if container, ok := f.lettersIn(); ok {
			in = container
			for _, other := range s.Functions {
				if other.monitors() == container && other.ContainerName != "" {
					errs = append(errs, fmt.Errorf("%s=%s is the monitored container of %s: keep dead letters in another",
						f.setting("DEAD_LETTERS"), f.DeadLetters, other.Name))
				}
			}
		}
		key := owner{in, f.LeaseContainerPrefix}
		if other, ok := owners[key]; ok {
			errs = append(errs, fmt.Errorf("%s and %s would share dead letters under the prefix %q: set %sLEASE_CONTAINER_PREFIX or %sDEAD_LETTERS to a name of its own",
				other, f.Name, f.LeaseContainerPrefix, f.Prefix(), f.Prefix()))
		}
		owners[key] = f.Name
	}
	return errors.Join(errs...)
}
