package settings

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/handlers"
	"halley/trigger/deadletter"
)

var functionNameRule = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

// Validate refuses lists of handlers and stores that cannot work.
func (o Source) Validate() error {
	var errs []error
	if len(o.Handlers) == 0 {
		errs = append(errs, errors.New("the app has no handler: pass app.Main at least one handlers.New(…)"))
	}
	global := GlobalKeys()
	var seen []string
	for _, e := range o.Handlers {
		switch {
		case !functionNameRule.MatchString(e.Name):
			errs = append(errs, fmt.Errorf("handler name %q: write lower-case letters and digits, and begin with a letter", e.Name))
			continue
		case slices.Contains(seen, e.Name):
			errs = append(errs, fmt.Errorf("two handlers are called %q: rename one", e.Name))
		}
		seen = append(seen, e.Name)
		errs = append(errs, CheckSettings(e, global))
	}
	return errors.Join(append(errs, checkStores(storeKinds(o.Stores)))...)
}

// CheckSettings refuses a handler one of whose variables is also another setting, and one
// that has a default for a setting that does not exist.
func CheckSettings(e handlers.Entry, global []string) error {
	if e.Settings() == nil {
		return fmt.Errorf("handler %s has no Open function: make its entry with handlers.New", e.Name)
	}
	if t := reflect.TypeOf(e.Settings()).Elem(); t.Kind() != reflect.Struct {
		return fmt.Errorf("handler %s: its settings are a %v: Open takes a struct", e.Name, t)
	}
	functionPrefix := ownPrefix(e)
	common := slices.Concat(Keys(functionPrefix, &Feed{}), Keys(functionPrefix, &Delivery{}))
	var errs []error
	for _, key := range common {
		if slices.Contains(global, key) {
			errs = append(errs, fmt.Errorf("handler name %q: its setting %s is also a setting of the app: rename the handler", e.Name, key))
		}
	}
	for _, key := range Keys(functionPrefix, e.Settings()) {
		if slices.Contains(global, key) || slices.Contains(common, key) {
			errs = append(errs, fmt.Errorf("handler %s: its setting %s is also a setting of Halley: rename the field", e.Name, key))
		}
	}
	for name := range functionDefaults(e) {
		if !slices.Contains(common, name) {
			errs = append(errs, fmt.Errorf("handler %s: its default of %s is of no setting that every function has: correct FunctionDefaults", e.Name, name))
		}
	}
	return errors.Join(errs...)
}

// GlobalKeys lists the variables that apply to all functions.
func GlobalKeys() []string {
	return slices.Concat(Keys(prefix, &App{}), Keys(prefix, &Feed{}), Keys(prefix, &Delivery{}))
}

// Source is the app whose settings are read.
type Source struct {
	Handlers []handlers.Entry
	// Stores are kinds of dead letter stores, next to those that every app has.
	Stores []deadletter.Kind
	// Credential makes the Entra ID credential of connections that name none; nil is
	// that of the machine.
	Credential func() (azcore.TokenCredential, error)
}

// Variables lists the variables of all settings of the app.
func (o Source) Variables() []string {
	all := GlobalKeys()
	for _, f := range o.Handlers {
		functionPrefix := ownPrefix(f)
		all = slices.Concat(all, Keys(functionPrefix, &Feed{}), Keys(functionPrefix, &Delivery{}), Keys(functionPrefix, f.Settings()))
	}
	return all
}
