package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
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
	// keeps: dead letters can be read again. If not, note tells the command check why.
	keeps bool
	note  string
	// inCosmos: a container in the lease database; onDisk: a directory of this
	// machine; connected: needs the connection of HALLEY_DEAD_LETTERS_CONNECTION.
	inCosmos, onDisk, connected bool
	// placeholderStore stands for the store while settings are validated.
	placeholderStore trigger.DeadLetters
	// open makes the store. Only a directory is I/O.
	open func(a accounts, f functionSettings, log *zap.Logger) (trigger.DeadLetters, error)
}

// stores lists the kinds of the app; a further one is a further row.
func (o Options) stores() []storeKind {
	rows := []storeKind{containerKind(), {
		kind: "directory", placeholder: "PATH", checkName: checkPath,
		keeps: true, onDisk: true, placeholderStore: unopened{}, open: openDirectoryStore,
	}}
	for _, linked := range o.DeadLetterStores {
		rows = append(rows, linkedKind(linked))
	}
	return append(rows, storeKind{
		kind: "drop", note: "a change that is given up is lost",
		placeholderStore: trigger.DropDeadLetters,
		open: func(accounts, functionSettings, *zap.Logger) (trigger.DeadLetters, error) {
			return trigger.DropDeadLetters, nil
		},
	}, storeKind{
		kind: "none", note: "a change that fails blocks its range until it succeeds",
		open: func(accounts, functionSettings, *zap.Logger) (trigger.DeadLetters, error) { return nil, nil },
	})
}

// containerKind is the row of the default.
func containerKind() storeKind {
	return storeKind{
		kind: "container", placeholder: "NAME", optional: true, checkName: checkContainerName,
		keeps: true, inCosmos: true, placeholderStore: unopened{}, open: openContainerStore,
	}
}

// linkedKind is the row of a kind that the app links.
func linkedKind(k deadletter.Kind) storeKind {
	row := storeKind{kind: k.Name, placeholder: k.Placeholder, checkName: k.CheckName, keeps: true, connected: true, placeholderStore: unopened{}}
	row.open = func(_ accounts, f functionSettings, _ *zap.Logger) (trigger.DeadLetters, error) {
		store, err := k.Open(f.DeadLetters.name, deadletter.Connection{Name: string(f.DeadLettersConnection), Credential: f.connections.Unnamed})
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", f.setting("DEAD_LETTERS_CONNECTION"), f.DeadLettersConnection, err)
		}
		return store, nil
	}
	return row
}

var kindRule = regexp.MustCompile(`^[a-z]+$`)

// checkStores refuses kinds that could not be selected.
func checkStores(rows []storeKind) error {
	var errs []error
	seen := map[string]bool{}
	for _, row := range rows {
		if !kindRule.MatchString(row.kind) || seen[row.kind] || row.connected && (row.placeholder == "" || row.checkName == nil) {
			errs = append(errs, fmt.Errorf("kind %q of app.Options.DeadLetterStores: give it a name of its own in lower-case letters, a placeholder and CheckName", row.kind))
		}
		seen[row.kind] = true
	}
	return errors.Join(errs...)
}

// unopened stands for a store that keeps dead letters: rules and defaults depend
// on whether there is one.
type unopened struct{ trigger.DeadLetters }

// storeSetting is a value of HALLEY_DEAD_LETTERS: a kind, and for some kinds a name.
type storeSetting struct {
	kind, name string
	named      bool       // there is a colon
	of         *storeKind // nil until the kind is found
}

// Decode implements [envconfig.Decoder]; an empty value leaves the default. The app
// knows its kinds, and resolve finds the setting's.
func (s *storeSetting) Decode(text string) error {
	if text == "" {
		return nil
	}
	kind, name, named := strings.Cut(text, ":")
	*s = storeSetting{kind: kind, name: name, named: named}
	return nil
}

// linkable are kinds of packages that an app can link, with the packages.
var linkable = map[string]string{
	"blob":  "halley/function/app/azurestorage",
	"queue": "halley/function/app/azurestorage",
}

// resolve finds the setting's kind among those of the app, and checks its name.
func (s *storeSetting) resolve(rows []storeKind) error {
	i := slices.IndexFunc(rows, func(row storeKind) bool { return row.kind == s.kind })
	if i < 0 {
		switch at, ok := linkable[s.kind]; {
		case s.kind == "discard": // until it was renamed
			return errors.New("discard is now drop")
		case ok:
			return fmt.Errorf("this app does not link that store: add the stores of package %s to app.Options.DeadLetterStores, or write %s", at, kindList(rows))
		}
		return fmt.Errorf("not a dead letter store: write %s", kindList(rows))
	}
	row := rows[i]
	switch {
	case !s.named && row.placeholder != "" && !row.optional:
		return fmt.Errorf("%s needs a name: write %s:%s", s.kind, s.kind, row.placeholder)
	case s.named && row.placeholder == "":
		return fmt.Errorf("%s has no name: write %s", s.kind, s.kind)
	case s.named:
		if err := row.checkName(s.name); err != nil {
			return fmt.Errorf("%w: write %s:%s", err, s.kind, row.placeholder)
		}
	}
	if row.onDisk {
		s.name = filepath.Clean(s.name)
	}
	s.of = &row
	return nil
}

func (s storeSetting) String() string {
	if s.name == "" {
		return s.kind
	}
	return s.kind + ":" + s.name
}

// row returns the setting's kind. A setting that is not resolved has none.
func (s storeSetting) row() storeKind {
	if s.of == nil {
		return storeKind{}
	}
	return *s.of
}

// kindList lists how every kind is written.
func kindList(rows []storeKind) string {
	var forms []string
	for _, row := range rows {
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
	store, err := f.DeadLetters.row().open(a, f, log)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", f.setting("DEAD_LETTERS"), f.DeadLetters, err)
	}
	return store, nil
}

func openContainerStore(a accounts, f functionSettings, _ *zap.Logger) (trigger.DeadLetters, error) {
	in, _ := f.deadLetterContainer()
	client, err := a.client(f, in.connection)
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

// storeConnected refuses dead letters in another account without its connection.
func (f *functionSettings) storeConnected() error {
	if !f.DeadLetters.row().connected || f.DeadLettersConnection != "" {
		return nil
	}
	return fmt.Errorf("%s=\"\": %s=%v needs another account: name its connection",
		f.setting("DEAD_LETTERS_CONNECTION"), f.setting("DEAD_LETTERS"), f.DeadLetters)
}
