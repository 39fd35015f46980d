// Package azurestorage stands in for the dead letter stores in Azure Storage in tests of
// package app, whose module requires no client of storage: kinds with the same names, whose
// stores keep nothing.
package azurestorage

import (
	"errors"
	"fmt"
	"regexp"
	"sync"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/deadletter"
)

// Blob and Queue are the types of the stores.
type (
	Blob  struct{ trigger.DeadLetters }
	Queue struct{ trigger.DeadLetters }
)

// DeadLetterStores are blob:CONTAINER and queue:NAME.
func DeadLetterStores() []deadletter.Kind {
	return []deadletter.Kind{
		{Name: "blob", Placeholder: "CONTAINER", CheckName: checkStorageName, Open: open(&Blob{})},
		{Name: "queue", Placeholder: "NAME", CheckName: checkStorageName, Open: open(&Queue{})},
	}
}

// open returns a function that resolves the account as far as its variable.
func open(store trigger.DeadLetters) func(string, deadletter.Connection) (trigger.DeadLetters, error) {
	return func(_ string, place deadletter.Connection) (trigger.DeadLetters, error) {
		name := settings.ConnectionName(place.Name)
		if name.Misplaced() {
			return nil, errors.New("a connection is a name, not the connection string")
		}
		if account.Variable(place.Name) == "" {
			return nil, fmt.Errorf("set %[1]s to the storage account's connection string, or %[1]s__accountName to its name", place.Name)
		}
		return store, nil
	}
}

// storageName matches names that Azure Storage accepts for containers and queues:
// https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
var storageName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`) })

func checkStorageName(name string) error {
	if !storageName().MatchString(name) || len(name) > 63 {
		return errors.New("not a name of 3 to 63 lower-case letters, digits and single hyphens, as Azure Storage accepts it")
	}
	return nil
}
