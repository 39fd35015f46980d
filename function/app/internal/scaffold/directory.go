package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// emptyDir returns the absolute path of a directory that does not exist or is empty.
func emptyDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", err
	case len(entries) > 0:
		return "", fmt.Errorf("%s is not empty: name a new directory", dir)
	}
	return dir, nil
}

var unnamable = regexp.MustCompile(`[^a-z0-9]+`)

// appName derives a name from a directory, "" if that is impossible: letters, digits
// and hyphens, for the executable, which must not have the name of a directory of the
// app, and for the database.
func appName(dir string) string {
	name := unnamable.ReplaceAllString(strings.ToLower(filepath.Base(dir)), "-")
	name = strings.Trim(strings.TrimLeft(name, "-0123456789"), "-")
	if name == firstHandler || slices.Contains(directories, name) {
		name += "-app"
	}
	return name
}

func namelessDir(dir string) string {
	return dir + ": the directory's name becomes the app's: begin it with a letter"
}
