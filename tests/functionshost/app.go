package functionshost

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// app is a function app directory as the host reads it: host.json at its root
// and one function.json in a folder per function (azure-functions-host,
// ScriptHost and HttpWorkerOptionsSetup).
type app struct {
	root                  string
	executable            string
	arguments             []string
	workingDirectory      string
	functionTimeout       time.Duration // 0: unbounded
	initializationTimeout time.Duration
	stderrIsError         bool // every stderr line is an error, except if it contains "warn"
	functions             map[string]function
	queues                queueSettings
}

type function struct {
	Name     string    `json:"-"`
	Bindings []binding `json:"bindings"`
}

type binding struct {
	Type      string `json:"type"`
	Direction string `json:"direction"`
	Name      string `json:"name"`
	Schedule  string `json:"schedule"`
	QueueName string `json:"queueName"`
}

// trigger returns the binding that fires the function.
func (f function) trigger() (binding, error) {
	i := slices.IndexFunc(f.Bindings, func(b binding) bool {
		return strings.HasSuffix(strings.ToLower(b.Type), "trigger")
	})
	if i < 0 {
		return binding{}, fmt.Errorf("function %s: no trigger binding in function.json", f.Name)
	}
	return f.Bindings[i], nil
}

type hostJSON struct {
	Version         string           `json:"version"`
	FunctionTimeout string           `json:"functionTimeout"`
	ExtensionBundle *json.RawMessage `json:"extensionBundle"`
	Functions       []string         `json:"functions"`
	Extensions      struct {
		Queues queueSettings `json:"queues"`
	} `json:"extensions"`
	CustomHandler struct {
		Description *struct {
			DefaultExecutablePath          string   `json:"defaultExecutablePath"`
			WorkingDirectory               string   `json:"workingDirectory"`
			Arguments                      []string `json:"arguments"`
			UseStdErrorStreamForErrorsOnly *bool    `json:"useStdErrorStreamForErrorsOnly"`
		} `json:"description"`
		InitializationTimeout string `json:"initializationTimeout"`
	} `json:"customHandler"`
}

// timeoutOverride is an app setting that overrides host.json, as every
// AzureFunctionsJobHost__<key> does.
const timeoutOverride = "AzureFunctionsJobHost__functionTimeout"

var functionName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,127}$`)

// readApp reads the directory. settings resolve %NAME% in host.json and in
// function.json. If a name is not set, it is removed from the arguments, and is
// an error in a binding.
func readApp(root string, settings map[string]string) (*app, error) {
	var h hostJSON
	if err := readJSON(filepath.Join(root, "host.json"), &h); err != nil {
		return nil, err
	}
	if h.Version != "2.0" {
		return nil, fmt.Errorf(`host.json: version is %q, must be "2.0"`, h.Version)
	}
	d := h.CustomHandler.Description
	if d == nil || d.DefaultExecutablePath == "" {
		return nil, errors.New("host.json: customHandler.description.defaultExecutablePath is missing: not a custom handler app")
	}
	a := &app{
		root:             root,
		executable:       resolveExecutable(root, d.DefaultExecutablePath),
		workingDirectory: filepath.Join(root, d.WorkingDirectory),
		arguments:        strings.Fields(expand(strings.Join(d.Arguments, " "), settings)),
		queues:           h.Extensions.Queues,
		stderrIsError:    d.UseStdErrorStreamForErrorsOnly == nil || *d.UseStdErrorStreamForErrorsOnly,
	}
	if override := settings[timeoutOverride]; override != "" {
		h.FunctionTimeout = override
	}
	var err error
	if a.functionTimeout, err = parseTimeout(h.FunctionTimeout, 30*time.Minute); err != nil {
		return nil, fmt.Errorf("host.json: functionTimeout: %w", err)
	}
	if a.initializationTimeout, err = parseTimeout(h.CustomHandler.InitializationTimeout, 30*time.Second); err != nil {
		return nil, fmt.Errorf("host.json: customHandler.initializationTimeout: %w", err)
	}
	if a.functions, err = readFunctions(root, settings); err != nil {
		return nil, err
	}
	if len(h.Functions) > 0 {
		for name := range a.functions {
			if !slices.Contains(h.Functions, name) {
				delete(a.functions, name)
			}
		}
	}
	return a, a.validate(h.ExtensionBundle != nil)
}

// validate returns an error if the app has no function, because the host starts
// the handler only if there is one, or if a function's trigger would not fire.
func (a *app) validate(bundle bool) error {
	if len(a.functions) == 0 {
		return fmt.Errorf("%s: no function.json below it: the host would start no handler", a.root)
	}
	for _, f := range a.functions {
		t, err := f.trigger()
		if err != nil {
			return err
		}
		switch t.Type {
		case "timerTrigger":
			if !validSchedule(t.Schedule) {
				return fmt.Errorf("function %s: schedule %q is neither NCRONTAB nor hh:mm:ss", f.Name, t.Schedule)
			}
		case "queueTrigger", "cosmosDBTrigger":
			if !bundle {
				return fmt.Errorf("function %s: %s needs extensionBundle in host.json", f.Name, t.Type)
			}
		}
	}
	return nil
}

func readFunctions(root string, settings map[string]string) (map[string]function, error) {
	paths, err := filepath.Glob(filepath.Join(root, "*", "function.json"))
	if err != nil {
		return nil, err
	}
	functions := make(map[string]function)
	for _, path := range paths {
		f := function{Name: filepath.Base(filepath.Dir(path))}
		if !functionName.MatchString(f.Name) || strings.EqualFold(f.Name, "host") {
			return nil, fmt.Errorf("%s: %q cannot name a function", path, f.Name)
		}
		if err := readJSON(path, &f); err != nil {
			return nil, err
		}
		for i := range f.Bindings {
			b := &f.Bindings[i]
			b.Schedule, b.QueueName = expand(b.Schedule, settings), expand(b.QueueName, settings)
		}
		functions[f.Name] = f
	}
	return functions, nil
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// resolveExecutable applies the host's rule: a relative path is joined to the
// app's root if that file exists, else it is searched in PATH.
func resolveExecutable(root, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if joined := filepath.Join(root, path); exists(joined) {
		return joined
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

var variable = regexp.MustCompile(`%[^%\s]+%`)

func expand(s string, settings map[string]string) string {
	return variable.ReplaceAllStringFunc(s, func(name string) string {
		return settings[strings.Trim(name, "%")]
	})
}

// validSchedule accepts the formats of the timer extension: five or six NCRONTAB
// fields, or a TimeSpan.
func validSchedule(s string) bool {
	if n := len(strings.Fields(s)); n == 5 || n == 6 {
		return true
	}
	_, err := parseTimeSpan(s)
	return err == nil
}

// parseTimeout reads a TimeSpan; "-1" is 0, unbounded.
func parseTimeout(s string, unset time.Duration) (time.Duration, error) {
	switch s {
	case "":
		return unset, nil
	case "-1":
		return 0, nil
	}
	return parseTimeSpan(s)
}

var timeSpan = regexp.MustCompile(`^(?:(\d+)\.)?(\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d{1,7})?)$`)

// parseTimeSpan reads .NET's [d.]hh:mm:ss[.fffffff].
func parseTimeSpan(s string) (time.Duration, error) {
	m := timeSpan.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a time span hh:mm:ss", s)
	}
	days, _ := strconv.Atoi("0" + m[1])
	hours, _ := strconv.Atoi(m[2])
	minutes, _ := strconv.Atoi(m[3])
	seconds, _ := strconv.ParseFloat(m[4], 64)
	if hours > 23 || minutes > 59 || seconds >= 60 {
		return 0, fmt.Errorf("%q is not a time span hh:mm:ss", s)
	}
	whole := time.Duration(days*24+hours)*time.Hour + time.Duration(minutes)*time.Minute
	return whole + time.Duration(seconds*float64(time.Second)), nil
}
