package app

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func (o Options) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the app, of Halley and of Go",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), o.Name, o.versions(), runtime.Version())
			return err
		},
	}
}

// versions are the app's and, if the app is not a part of Halley, Halley's.
func (o Options) versions() string {
	info, _ := debug.ReadBuildInfo()
	if halley := halleyVersion(info); halley != "" {
		return fmt.Sprintf("%s (halley %s)", o.Version, halley)
	}
	return o.Version
}

const devel = "devel"

// appModule is the path of the module that this package is in, and halleyModule that of
// Halley's root module.
var (
	appModule    = reflect.TypeFor[Options]().PkgPath()
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
