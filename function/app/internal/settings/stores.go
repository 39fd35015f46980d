package settings

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"halley/trigger"
	"halley/trigger/deadletter"
)

// StoreKind is one kind of dead letter store, as HALLEY_DEAD_LETTERS names it.
type StoreKind struct {
	Name string
	// placeholder stands for the store's name in texts; "" if the kind has none.
	placeholder string
	// optional: the name may be left out.
	optional bool
	// checkName returns an error that says how a name is written.
	checkName func(name string) error
	// keeps: dead letters can be read again. If not, note tells the command check why.
	Keeps bool
	Note  string
	// inCosmos: a container in the lease database; onDisk: a directory of this
	// machine; connected: needs the connection of HALLEY_DEAD_LETTERS_CONNECTION.
	InCosmos, OnDisk, connected bool
	// PlaceholderStore stands for the store while settings are validated. It is the
	// store itself of kinds that keep nothing.
	PlaceholderStore trigger.DeadLetters
	// Linked is the kind that the app links; nil if every app has the kind.
	Linked *deadletter.Kind
}

// storeKinds lists the kinds of an app that links some; a further one is a further row.
func storeKinds(linked []deadletter.Kind) []StoreKind {
	rows := []StoreKind{containerKind(), {
		Name: "directory", placeholder: "PATH", checkName: checkPath,
		Keeps: true, OnDisk: true, PlaceholderStore: unopened{},
	}}
	for _, k := range linked {
		rows = append(rows, StoreKind{
			Name: k.Name, placeholder: k.Placeholder, checkName: k.CheckName,
			Keeps: true, connected: true, PlaceholderStore: unopened{}, Linked: &k,
		})
	}
	return append(rows, StoreKind{
		Name: "drop", Note: "a change that is given up is lost",
		PlaceholderStore: trigger.DropDeadLetters,
	}, StoreKind{
		Name: "none", Note: "a change that fails blocks its range until it succeeds",
	})
}

// containerKind is the row of the default.
func containerKind() StoreKind {
	return StoreKind{
		Name: "container", placeholder: "NAME", optional: true, checkName: checkContainerName,
		Keeps: true, InCosmos: true, PlaceholderStore: unopened{},
	}
}

var kindRule = regexp.MustCompile(`^[a-z]+$`)

// checkStores refuses kinds that could not be selected.
func checkStores(rows []StoreKind) error {
	var errs []error
	seen := map[string]bool{}
	for _, row := range rows {
		if !kindRule.MatchString(row.Name) || seen[row.Name] || row.connected && (row.placeholder == "" || row.checkName == nil) {
			errs = append(errs, fmt.Errorf("kind %q of app.Options.DeadLetterStores: give it a name of its own in lower-case letters, a placeholder and CheckName", row.Name))
		}
		seen[row.Name] = true
	}
	return errors.Join(errs...)
}

// unopened stands for a store that keeps dead letters: rules and defaults depend
// on whether there is one.
type unopened struct{ trigger.DeadLetters }

// StoreSetting is a value of HALLEY_DEAD_LETTERS: a kind, and for some kinds a name.
type StoreSetting struct {
	Kind, Name string
	named      bool       // there is a colon
	row        *StoreKind // nil until the kind is found
}

// Decode implements [envconfig.Decoder]; an empty value leaves the default. The app
// knows its kinds, and resolve finds the setting's.
func (s *StoreSetting) Decode(text string) error {
	if text == "" {
		return nil
	}
	kind, name, named := strings.Cut(text, ":")
	*s = StoreSetting{Kind: kind, Name: name, named: named}
	return nil
}

// linkable are kinds of packages that an app can link, with the packages.
var linkable = map[string]string{
	"blob":  "halley/function/app/azurestorage",
	"queue": "halley/function/app/azurestorage",
}

// resolve finds the setting's kind among those of the app, and checks its name.
func (s *StoreSetting) resolve(rows []StoreKind) error {
	i := slices.IndexFunc(rows, func(row StoreKind) bool { return row.Name == s.Kind })
	if i < 0 {
		if location, ok := linkable[s.Kind]; ok {
			return fmt.Errorf("this app does not link that store: add the stores of package %s to app.Options.DeadLetterStores, or write %s", location, kindList(rows))
		}
		return fmt.Errorf("not a dead letter store: write %s", kindList(rows))
	}
	row := rows[i]
	switch {
	case !s.named && row.placeholder != "" && !row.optional:
		return fmt.Errorf("%s needs a name: write %s:%s", s.Kind, s.Kind, row.placeholder)
	case s.named && row.placeholder == "":
		return fmt.Errorf("%s has no name: write %s", s.Kind, s.Kind)
	case s.named:
		if err := row.checkName(s.Name); err != nil {
			return fmt.Errorf("%w: write %s:%s", err, s.Kind, row.placeholder)
		}
	}
	if row.OnDisk {
		s.Name = filepath.Clean(s.Name)
	}
	s.row = &row
	return nil
}

func (s StoreSetting) String() string {
	if s.Name == "" {
		return s.Kind
	}
	return s.Kind + ":" + s.Name
}

// Row returns the setting's kind. A setting that is not resolved has none.
func (s StoreSetting) Row() StoreKind {
	if s.row == nil {
		return StoreKind{}
	}
	return *s.row
}

// kindList lists how every kind is written.
func kindList(rows []StoreKind) string {
	var forms []string
	for _, row := range rows {
		if row.placeholder == "" || row.optional {
			forms = append(forms, row.Name)
		}
		if row.placeholder != "" {
			forms = append(forms, row.Name+":"+row.placeholder)
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
