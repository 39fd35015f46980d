package hosting

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionOf(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	modified := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, test := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "devel"},
		{&debug.BuildInfo{}, "devel"},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{revision}}, "0123456789ab"},
		{&debug.BuildInfo{Settings: []debug.BuildSetting{revision, modified}}, "0123456789ab+changes"},
	} {
		if got := versionOf(test.info); got != test.want {
			t.Errorf("%+v: %q, want %q", test.info, got, test.want)
		}
	}
}

// An app of another module shows its own version, then Halley's.
func TestHalleyVersion(t *testing.T) {
	of := func(d *debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: "example.com/shop"}, Deps: []*debug.Module{{Path: "example.com/other", Version: "v9.9.9"}, d}}
	}
	for _, test := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, ""},
		{&debug.BuildInfo{Main: debug.Module{Path: halleyModule}}, ""},
		{of(&debug.Module{Path: appModule, Version: "v1.2.3"}), "v1.2.3"},
		{of(&debug.Module{Path: appModule, Version: "v0.0.0", Replace: &debug.Module{Path: "../halley"}}), "devel"},
		{of(&debug.Module{Path: appModule, Version: "v0.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.2.4"}}), "v1.2.4"},
	} {
		if got := halleyVersion(test.info); got != test.want {
			t.Errorf("%+v: %q, want %q", test.info, got, test.want)
		}
	}
}

// TestModuleNamesItsToolchain: the go line is the oldest Go that builds the
// module, and the toolchain line the release that it is tested with.
func TestModuleNamesItsToolchain(t *testing.T) {
	text, err := os.ReadFile("../../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\ngo 1.26.0\n") || !regexp.MustCompile(`\ntoolchain go1\.26\.\d+\n`).Match(text) {
		t.Errorf("go.mod lacks go 1.26.0 or a toolchain of it:\n%.80s", text)
	}
}

func TestDefaultNameIsThatOfThePackage(t *testing.T) {
	for path, want := range map[string]string{
		"example.com/shop":          "shop",
		"example.com/shop/cmd/till": "till",
		"example.com/shop/v2":       "shop",
	} {
		if got := nameOf(&debug.BuildInfo{Path: path}); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if nameOf(nil) == "" || nameOf(&debug.BuildInfo{Path: "command-line-arguments"}) == "" {
		t.Error("an app without a name")
	}
}
