package account

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/deadletter"
)

// OpenDeadLetters makes the function's store of dead letters; nil is none. Only a
// directory is I/O.
func (a Clients) OpenDeadLetters(f settings.Function, log *zap.Logger) (trigger.DeadLetters, error) {
	store, err := a.openStore(f, log)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", f.Variable("DEAD_LETTERS"), f.DeadLetters, err)
	}
	return store, nil
}

func (a Clients) openStore(f settings.Function, log *zap.Logger) (trigger.DeadLetters, error) {
	switch kind := f.DeadLetters.Row(); {
	case kind.InCosmos:
		return a.openContainerStore(f)
	case kind.OnDisk:
		return openDirectoryStore(f.DeadLetters.Name, log)
	case kind.Linked != nil:
		return openLinkedStore(f, *kind.Linked)
	default:
		return kind.PlaceholderStore, nil
	}
}

func (a Clients) openContainerStore(f settings.Function) (trigger.DeadLetters, error) {
	in, _ := f.DeadLetterContainer()
	client, err := a.Client(f, in.Connection)
	if err != nil {
		return nil, err
	}
	return deadletter.NewContainer(client.Container(in.Database, in.Container), &deadletter.ContainerOptions{Retention: time.Duration(f.DeadLetterRetention)})
}

func openDirectoryStore(path string, log *zap.Logger) (trigger.DeadLetters, error) {
	return deadletter.NewDirectory(path, &deadletter.DirectoryOptions{Report: func(err error) {
		log.Error("dead letters are damaged", zap.String("directory", path), zap.Error(err))
	}})
}

// openLinkedStore makes a store of a kind that the app links.
func openLinkedStore(f settings.Function, kind deadletter.Kind) (trigger.DeadLetters, error) {
	store, err := kind.Open(f.DeadLetters.Name, deadletter.Connection{Name: string(f.DeadLettersConnection), Credential: f.ConnectionDefaults.Unnamed})
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", f.Variable("DEAD_LETTERS_CONNECTION"), f.DeadLettersConnection, err)
	}
	return store, nil
}
