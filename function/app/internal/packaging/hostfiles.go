package packaging

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Executable returns the name that host.json in root gives to the executable. An
// error names the fix.
func Executable(root string) (string, error) {
	file := filepath.Join(root, "host.json")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s does not exist: run the command in the directory of the app", file)
	}
	if err != nil {
		return "", err
	}
	var host struct {
		CustomHandler struct {
			Description struct{ DefaultExecutablePath string }
		}
	}
	if err := json.Unmarshal(data, &host); err != nil {
		return "", fmt.Errorf("%s: not valid JSON: %w", file, err)
	}
	name := host.CustomHandler.Description.DefaultExecutablePath
	if err := checkExecutable(name); err != nil {
		return "", fmt.Errorf("%s: customHandler.description.defaultExecutablePath is %q: %w", file, name, err)
	}
	return name, nil
}

// checkExecutable refuses names that differ between machines. Core Tools sets the run
// bit only if the name of the packaged file equals defaultExecutablePath
// (azure-functions-core-tools, ZipHelper).
func checkExecutable(name string) error {
	switch {
	case name == "":
		return errors.New("name the executable")
	case strings.Contains(name, `\`) || path.Clean(name) != name || !filepath.IsLocal(name):
		return fmt.Errorf("write the name in the package, such as %q, without ./", path.Base(strings.ReplaceAll(name, `\`, "/")))
	case strings.EqualFold(path.Ext(name), ".exe"):
		return fmt.Errorf("the package is for Linux: write %q, and on Windows set "+
			"AzureFunctionsJobHost__customHandler__description__defaultExecutablePath to the other name in local.settings.json", strings.TrimSuffix(name, path.Ext(name)))
	}
	return nil
}

// functionFiles lists function.json of each function below root, with slashes.
func functionFiles(root string) ([]string, error) {
	found, err := fs.Glob(os.DirFS(root), "*/function.json")
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no function.json in a directory of %s: the Functions host would start no handler", root)
	}
	return found, nil
}
