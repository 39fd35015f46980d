package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"halley/function/app"
	"halley/function/app/azurestorage"
	"halley/function/app/otel"
	"halley/function/internal/bundled"
	"halley/handlers"
	"halley/handlers/archive"
	"halley/handlers/migrate"
	"halley/handlers/remote"
)

// appFile is the content of halley.json. All of it may be left out.
type appFile struct {
	Name       string            `json:"name"`     // of the app, and of its database in dev
	Settings   map[string]string `json:"settings"` // the environment overrides each
	Containers []containerFile   `json:"containers"`
}

// containerFile is a container that dev creates.
type containerFile struct {
	Database     string   `json:"database"`
	Name         string   `json:"name"`
	PartitionKey []string `json:"partitionKey"` // paths, such as /customer
}

// load returns the app of a file. It sets the settings of the file in the environment, which
// the processes of the functions inherit.
func load(path string, args []string) (app.Options, error) {
	file, err := readAppFile(path)
	if err != nil {
		return app.Options{}, fmt.Errorf("%s: %w", path, err)
	}
	for name, value := range file.Settings {
		if _, found := os.LookupEnv(name); found {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return app.Options{}, fmt.Errorf("%s: setting %q: %w", path, name, err)
		}
	}
	if err := refusePackage(args); err != nil {
		return app.Options{}, err
	}
	chosen, err := choose(args)
	if err != nil {
		return app.Options{}, err
	}
	o := app.Options{
		Name:             cmp.Or(file.Name, "halley"),
		Handlers:         chosen,
		DeadLetterStores: azurestorage.DeadLetterStores(),
		Sources:          []string{".py", ".js", ".mjs", ".cjs", ".ts", ".mts"},
	}
	if slices.ContainsFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "OTEL_EXPORTER_OTLP_") }) {
		o.Telemetry = otel.Export
	}
	for _, c := range file.Containers {
		o.Containers = append(o.Containers, app.Container{Database: c.Database, Name: c.Name, PartitionKey: c.PartitionKey})
	}
	o.Commands = []*cobra.Command{app.NewCommand(), app.VerifyServiceCommand(), testCommand(), archive.Command(o.Inspect), migrate.Command(o.Inspect)}
	return o, nil
}

// refusePackage refuses the command package for a function app: its zip file is for plans
// that bring no interpreter. The release of this program is built by it.
func refusePackage(args []string) error {
	if len(args) == 0 || args[0] != "package" || slices.Contains(args, "--release") || slices.Contains(args, "--help") {
		return nil
	}
	return errors.New("package builds apps in Go: the plans of Azure Functions for its zip file, and AWS Lambda's provided.al2023, bring no Python and no Node.js; " +
		"build Dockerfile or Dockerfile.functions, which halley new app DIR --lang writes")
}

// readAppFile reads the file, which need not exist. It refuses unknown names.
func readAppFile(path string) (file appFile, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return appFile{}, nil
	}
	if err != nil {
		return appFile{}, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return appFile{}, fmt.Errorf(`%w: write for example {"name": "shop", "settings": {"HALLEY_ORDERS_COMMAND": "python3 -m halley orders"}, "containers": [{"name": "orders", "partitionKey": ["/customer"]}]}`, err)
	}
	for _, c := range file.Containers {
		if c.Name == "" {
			return appFile{}, errors.New(`a container has no name: write {"name": "orders", "partitionKey": ["/customer"]}`)
		}
	}
	return file, nil
}

// commandVariable is the setting that makes a function of a program.
var commandVariable = regexp.MustCompile(`^HALLEY_([A-Z][A-Z0-9]*)_COMMAND$`)

// choose returns the functions of the environment: those with a command, and the handlers
// that HALLEY_FUNCTIONS names. Without any, it returns all handlers, for the help, and
// refuses commands that work on functions.
func choose(args []string) ([]handlers.Entry, error) {
	all := bundled.Entries()
	wanted := strings.FieldsFunc(os.Getenv("HALLEY_FUNCTIONS"), func(r rune) bool { return r == ',' || r == ' ' })
	programs := programNames(all)
	var chosen []handlers.Entry
	for _, e := range all {
		if slices.Contains(wanted, e.Name) {
			chosen = append(chosen, e)
		}
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(e handlers.Entry) bool { return e.Name == name }) && !slices.Contains(programs, name) {
			programs = append(programs, name) // it lacks its command, which its Open tells
		}
	}
	for _, name := range programs {
		chosen = append(chosen, handlers.New(name, "calls the program of "+commandOf(name), remote.OpenFunction))
	}
	if len(chosen) > 0 {
		return chosen, nil
	}
	if worksOnFunctions(args) {
		return nil, fmt.Errorf("the app has no function: set %s in the environment or in halley.json to the command of a function, or HALLEY_FUNCTIONS to handlers of %s; halley new app DIR --lang python writes an app",
			commandOf("<name>"), strings.Join(namesOf(all), ", "))
	}
	return all, nil
}

// programNames returns the functions whose command is set. Remote has a setting of that
// name, too.
func programNames(all []handlers.Entry) (names []string) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if found := commandVariable.FindStringSubmatch(name); found != nil && !slices.Contains(namesOf(all), strings.ToLower(found[1])) {
			names = append(names, strings.ToLower(found[1]))
		}
	}
	slices.Sort(names)
	return names
}

func commandOf(function string) string { return "HALLEY_" + strings.ToUpper(function) + "_COMMAND" }

func namesOf(entries []handlers.Entry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// worksOnFunctions reports whether a run with these arguments needs the app's functions. A
// platform starts it without arguments.
func worksOnFunctions(args []string) bool {
	if len(args) == 0 {
		return os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT") != "" || os.Getenv("AWS_LAMBDA_RUNTIME_API") != ""
	}
	return slices.Contains([]string{"run", "dev", "check", "status", "deadletters", "leases"}, args[0]) &&
		!slices.Contains(args, "--help") && !slices.Contains(args, "-h")
}
