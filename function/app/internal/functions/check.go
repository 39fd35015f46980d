package functions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
)

// Finding is the outcome of one check of a Functions app.
type Finding struct {
	Checked string
	Err     error // nil if it is as it must be
}

// CheckApp checks the Functions app around this process, if there is one. mode is that of
// the settings, "" if they were refused.
func CheckApp(mode settings.Mode) []Finding {
	dir := appRoot()
	file := filepath.Join(dir, "host.json")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	executable := ""
	if err == nil {
		executable, err = CheckHostJSON(data)
	}
	findings := []Finding{{"packaging: " + file, err}}
	checked := "packaging: functions of the app"
	err = checkFunctions(dir)
	if queue := checkFanout(dir, data, mode); !errors.Is(queue, errNotPackaged) {
		err = errors.Join(err, queue)
	} else if executable != "" && exists(filepath.Join(dir, filepath.FromSlash(executable))) {
		err = errors.Join(err, queue)
	} else { // a source tree
		checked += " (for HALLEY_MODE=fanout, deploy the file that package --fanout writes)"
	}
	findings = append(findings, Finding{checked, err})
	if executable != "" {
		findings = append(findings, Finding{"packaging: executable " + executable, checkExecutable(filepath.Join(dir, filepath.FromSlash(executable)))})
	}
	return findings
}

// CheckHostJSON returns the path of the executable that host.json names, below its
// directory; "" if it names none that a package can have.
func CheckHostJSON(data []byte) (executable string, err error) {
	var host struct {
		Version         string
		FunctionTimeout string
		CustomHandler   struct {
			EnableForwardingHTTPRequest bool `json:"enableForwardingHttpRequest"`
			Description                 struct {
				DefaultExecutablePath string
				Arguments             []string
			}
		}
	}
	if err := json.Unmarshal(data, &host); err != nil {
		return "", fmt.Errorf("not valid JSON: %w", err)
	}
	var errs []error
	if host.Version != "2.0" {
		errs = append(errs, fmt.Errorf(`version is %q: write "2.0"`, host.Version))
	}
	d := host.CustomHandler.Description
	if executable = d.DefaultExecutablePath; !isPlainPath(executable) {
		errs = append(errs, fmt.Errorf("customHandler.description.defaultExecutablePath is %q: write the path of the binary in the package, without ./", executable))
		executable = ""
	}
	if len(d.Arguments) > 0 {
		errs = append(errs, errors.New("customHandler.description.arguments turn the handler into a command: remove them"))
	}
	if host.FunctionTimeout != "" {
		_, _, err := limitOf(host.FunctionTimeout, "host.json")
		errs = append(errs, err)
	}
	return executable, errors.Join(errs...)
}

// isPlainPath reports whether a path is below the directory of host.json and written
// as the entries of a zip are, so that Core Tools finds the entry and sets its run bit.
func isPlainPath(name string) bool {
	return name == path.Clean(name) && name != "." && filepath.IsLocal(filepath.FromSlash(name))
}

// checkFunctions compares the directories that hold a function.json with the
// functions of the custom handler.
func checkFunctions(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*", "function.json"))
	if err != nil {
		return err
	}
	var errs []error
	var found []string
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		found = append(found, name)
		switch name {
		case pageFunction:
			errs = append(errs, checkPageJSON(file))
		case functionName:
			errs = append(errs, checkFunctionJSON(file))
		case drainFunction: // see checkFanout
		default:
			errs = append(errs, fmt.Errorf("%s: the handler serves no function %q, only %s: rename or remove the directory", file, name,
				strings.Join([]string{functionName, drainFunction, pageFunction}, ", ")))
		}
	}
	if !slices.Contains(found, functionName) {
		errs = append(errs, fmt.Errorf("%s is missing: the Functions host would never call the handler", filepath.Join(dir, functionName, "function.json")))
	}
	return errors.Join(errs...)
}

// functionBinding is a binding of a function.json.
type functionBinding struct{ Type, Direction, Name, Schedule, Route, AuthLevel, QueueName, Connection string }

func readBindings(file string) ([]functionBinding, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var function struct{ Bindings []functionBinding }
	if err := json.Unmarshal(data, &function); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return function.Bindings, nil
}

// checkPageJSON checks the function of the operators' page.
func checkPageJSON(file string) error {
	bindings, err := readBindings(file)
	if err != nil {
		return err
	}
	want := []functionBinding{
		{Type: "httpTrigger", Direction: "in", Name: "req", Route: pageFunction + "/{*path}", AuthLevel: "anonymous"},
		{Type: "http", Direction: "out", Name: "res"},
	}
	if !slices.Equal(bindings, want) {
		return fmt.Errorf("%s: it is not the function of the operators' page: remove it, and run package --page", file)
	}
	if os.Getenv("HALLEY_PAGE_TOKEN") == "" {
		return fmt.Errorf("%s: HALLEY_PAGE_TOKEN is not set: the page would answer nothing", file)
	}
	return nil
}

func checkFunctionJSON(file string) error {
	bindings, err := readBindings(file)
	if err != nil {
		return err
	}
	if len(bindings) == 2 && bindings[1].Type == "queue" { // see checkFanout
		bindings = bindings[:1]
	}
	if len(bindings) != 1 || bindings[0].Type != "timerTrigger" {
		return fmt.Errorf("%s: its bindings must be a timerTrigger and, for HALLEY_MODE=fanout, a queue after it", file)
	}
	schedule := bindings[0].Schedule
	if name, ok := settingReference(schedule); ok && account.Variable(name) == "" {
		return fmt.Errorf("%s: schedule %s names a setting that is not set here: the Functions host would not load the function", file, schedule)
	}
	if schedule == "" {
		return fmt.Errorf(`%s: no schedule: write one such as "*/10 * * * * *"`, file)
	}
	return nil
}

// checkFanout checks the queue between the timer and the function drain, if the app has
// one. The error is errNotPackaged if it has none and the mode needs one. host is
// host.json.
func checkFanout(dir string, host []byte, mode settings.Mode) error {
	drainFile := filepath.Join(dir, drainFunction, "function.json")
	switch {
	case exists(drainFile):
		err := checkQueue(filepath.Join(dir, functionName, "function.json"), drainFile, host)
		if mode != settings.ModeFanout && mode != "" {
			err = errors.Join(fmt.Errorf("%s: HALLEY_MODE is %s, so the function has nothing to do: set HALLEY_MODE=fanout, or package without --fanout", drainFile, mode), err)
		}
		return err
	case mode == settings.ModeFanout:
		return errNotPackaged
	}
	return nil
}

// checkQueue checks that the timer writes to the queue that the function drain reads.
func checkQueue(timerFile, drainFile string, host []byte) error {
	timer, err := readBindings(timerFile)
	drain, drainErr := readBindings(drainFile)
	if err := errors.Join(err, drainErr); err != nil {
		return err
	}
	if len(timer) != 2 || len(drain) != 1 {
		return fmt.Errorf("%s and %s need one timer, one queue output and one queue trigger: run package --fanout", timerFile, drainFile)
	}
	output, input := timer[1], drain[0]
	var errs []error
	if output.Type != "queue" || output.Direction != "out" || output.Name != rangesOutput {
		errs = append(errs, fmt.Errorf("%s: it has no queue output called %s, so no message would be sent: run package --fanout", timerFile, rangesOutput))
	}
	if input.Type != "queueTrigger" || input.QueueName != output.QueueName || input.Connection != output.Connection {
		errs = append(errs, fmt.Errorf("%s: it must be a queueTrigger of the queue %q of the connection %q, to which the timer writes", drainFile, output.QueueName, output.Connection))
	}
	if name, ok := settingReference(output.QueueName); ok && account.Variable(name) == "" {
		errs = append(errs, fmt.Errorf("%s: queueName %s names a setting that is not set here: the Functions host would not load the function", drainFile, output.QueueName))
	}
	var bundle struct{ ExtensionBundle json.RawMessage }
	if err := json.Unmarshal(host, &bundle); err == nil && bundle.ExtensionBundle == nil {
		errs = append(errs, errors.New("host.json names no extensionBundle, without which the Functions host knows no queues: run package --fanout"))
	}
	return errors.Join(errs...)
}

// settingReference returns NAME if s is %NAME%.
func settingReference(s string) (name string, ok bool) {
	if len(s) > 2 && strings.HasPrefix(s, "%") && strings.HasSuffix(s, "%") {
		return s[1 : len(s)-1], true
	}
	return "", false
}

// checkExecutable checks the binary next to host.json. A source tree has no binary,
// which is not an error.
func checkExecutable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable: chmod +x it, or package on Linux or macOS", path)
	}
	return nil
}
