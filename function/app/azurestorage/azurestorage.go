// Package azurestorage has the dead letter stores in Azure Storage accounts, for apps
// that keep their dead letters there:
//
//	app.Options{Handlers: …, DeadLetterStores: azurestorage.DeadLetterStores()}.Main()
//
// HALLEY_DEAD_LETTERS_CONNECTION names the connection of the account, by default
// AzureWebJobsStorage.
package azurestorage

import (
	"errors"
	"regexp"
	"sync"

	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/deadletter"
	"halley/trigger/deadletter/azure"
)

// DeadLetterStores are blob:CONTAINER, which keeps dead letters in a blob container,
// and queue:NAME, which also sends a message about each to the queue of that name.
func DeadLetterStores() []deadletter.Kind {
	return []deadletter.Kind{
		{Name: "blob", Placeholder: "CONTAINER", CheckName: checkStorageName, Open: openBlob},
		{Name: "queue", Placeholder: "NAME", CheckName: checkStorageName, Open: openQueue},
	}
}

func openBlob(name string, account deadletter.Connection) (trigger.DeadLetters, error) {
	s, err := resolveStorage(settings.ConnectionName(account.Name), account.Credential)
	if err != nil {
		return nil, err
	}
	return s.blobStore(name)
}

// openQueue stores the dead letters in a blob container of the queue's name.
func openQueue(name string, account deadletter.Connection) (trigger.DeadLetters, error) {
	s, err := resolveStorage(settings.ConnectionName(account.Name), account.Credential)
	if err != nil {
		return nil, err
	}
	blobs, err := s.blobStore(name)
	if err != nil {
		return nil, err
	}
	queue, err := s.queue(name)
	if err != nil {
		return nil, err
	}
	return azure.NewQueue(blobs, queue, nil)
}

func (s *storage) blobStore(name string) (*azure.Blob, error) {
	container, err := s.blobContainer(name)
	if err != nil {
		return nil, err
	}
	return azure.NewBlob(container, nil)
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
