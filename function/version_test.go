package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
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

func TestVersionWithoutVCSStamp(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	binary := filepath.Join(t.TempDir(), "halley")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for args, want := range map[string]string{
		"version":   "halley devel " + runtime.Version() + "\n",
		"--version": "halley version devel\n",
	} {
		if out, err := exec.Command(binary, args).CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%s: %q, %v, want %q", args, out, err, want)
		}
	}
}

// TestModuleNamesItsToolchain: the go line is the oldest Go that builds the
// module, and the toolchain line the release that it is tested with.
func TestModuleNamesItsToolchain(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\ngo 1.26.0\n") || !regexp.MustCompile(`\ntoolchain go1\.26\.\d+\n`).Match(text) {
		t.Errorf("go.mod lacks go 1.26.0 or a toolchain of it:\n%.80s", text)
	}
}
