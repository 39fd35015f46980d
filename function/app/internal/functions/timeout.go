package functions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"halley/function/app/internal/hosting"
)

const (
	// unboundedTimeout replaces functionTimeout "-1". If a drain never catches up it
	// still ends and reports, and the next one continues.
	unboundedTimeout = 30 * time.Minute

	// timeoutOverride is the app setting that overrides host.json.
	timeoutOverride = "AzureFunctionsJobHost__functionTimeout"
)

// functionTimeout returns the time limit of an invocation under the Functions host:
// from the app setting that overrides host.json if it is set, from host.json if that
// has one, or hosting.AssumedTimeout. With an error it returns hosting.AssumedTimeout as well.
func functionTimeout() (limit time.Duration, source string, err error) {
	if s := os.Getenv(timeoutOverride); s != "" {
		return limitOf(s, timeoutOverride)
	}
	path := filepath.Join(appRoot(), "host.json")
	s, err := readFunctionTimeout(path)
	if err != nil || s == "" {
		return hosting.AssumedTimeout, "default", err
	}
	return limitOf(s, path)
}

func limitOf(s, source string) (time.Duration, string, error) {
	if s == "-1" {
		return unboundedTimeout, source, nil
	}
	limit, err := parseTimeSpan(s)
	if err != nil {
		return hosting.AssumedTimeout, "default", fmt.Errorf("functionTimeout of %s: %w", source, err)
	}
	return limit, source, nil
}

// appRoot is the directory that holds host.json.
func appRoot() string {
	for _, name := range []string{"FUNCTIONS_APP_ROOT_PATH", "AzureWebJobsScriptRoot"} {
		if dir := os.Getenv(name); dir != "" {
			return dir
		}
	}
	return "."
}

// readFunctionTimeout reads functionTimeout from host.json. It is "" if there is no
// such file or key.
func readFunctionTimeout(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var host struct {
		FunctionTimeout string `json:"functionTimeout"`
	}
	if err := json.Unmarshal(data, &host); err != nil {
		return "", fmt.Errorf("read functionTimeout of %s: %w", path, err)
	}
	return host.FunctionTimeout, nil
}

var timeSpan = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(\d{1,5})\.)?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,7}))?)?$`)
})

// parseTimeSpan parses .NET's constant TimeSpan format, [d.]hh:mm[:ss[.fffffff]].
func parseTimeSpan(s string) (time.Duration, error) {
	m := timeSpan().FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a time span: write hh:mm:ss, or -1 for none", s)
	}
	var d time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.Atoi(m[i+1])
		d += time.Duration(n) * unit
	}
	if fraction := m[5]; fraction != "" {
		ticks, _ := strconv.Atoi((fraction + "0000000")[:7])
		d += time.Duration(ticks) * 100
	}
	if d == 0 {
		return 0, fmt.Errorf("%q leaves no time: write hh:mm:ss, or -1 for none", s)
	}
	return d, nil
}
