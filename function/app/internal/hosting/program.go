package hosting

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"

	"halley/function/app/internal/settings"
)

// Program is the app as its rooms need it.
type Program struct {
	Name, Version  string
	Source         settings.Source // of its settings
	Telemetry      Telemetry       // nil is none
	Stdout, Stderr io.Writer
}

// SetDefaults fills in the name and the version that the build gave to the program, and
// the outputs of the process.
func (p *Program) SetDefaults() {
	info, _ := debug.ReadBuildInfo()
	p.Name = cmp.Or(p.Name, nameOf(info))
	p.Version = cmp.Or(p.Version, versionOf(info))
	if p.Stdout == nil {
		p.Stdout = os.Stdout
	}
	if p.Stderr == nil {
		p.Stderr = os.Stderr
	}
}

var majorVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^v[0-9]+$`) })

// nameOf returns the last element of the main package's path that is not a major
// version, else the name of the executable.
func nameOf(info *debug.BuildInfo) string {
	if info == nil || info.Path == "" || info.Path == "command-line-arguments" {
		return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	if base := path.Base(info.Path); !majorVersion().MatchString(base) {
		return base
	}
	return path.Base(path.Dir(info.Path))
}

// Versions are the app's and, if the app is not a part of Halley, Halley's.
func (p *Program) Versions() string {
	info, _ := debug.ReadBuildInfo()
	if halley := halleyVersion(info); halley != "" {
		return fmt.Sprintf("%s (halley %s)", p.Version, halley)
	}
	return p.Version
}

const devel = "devel"

// packageMark is a type without methods, whose path is that of this package.
type packageMark struct{}

// appModule is the path of the module that this package is in, and halleyModule that of
// Halley's root module.
var (
	appModule    = strings.TrimSuffix(reflect.TypeFor[packageMark]().PkgPath(), "/internal/hosting")
	halleyModule = strings.TrimSuffix(appModule, "/function/app")
)

// halleyVersion returns the version of this module as a dependency of the main module, or
// "" if Halley is the main module.
func halleyVersion(info *debug.BuildInfo) string {
	if info == nil || info.Main.Path == halleyModule {
		return ""
	}
	for _, d := range info.Deps {
		if d.Path != appModule {
			continue
		}
		if d.Replace != nil {
			d = d.Replace
		}
		if d.Version == "(devel)" {
			return devel
		}
		return cmp.Or(d.Version, devel)
	}
	return devel
}

// versionOf returns the main module's version, else the commit that the binary was
// built from, else "devel". It is never empty.
func versionOf(info *debug.BuildInfo) string {
	if info == nil {
		return devel
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	return cmp.Or(commit, devel) + changed
}
