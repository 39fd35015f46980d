package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"halley/tests/long"
)

// buildPackages writes the wheel and the npm package for this machine.
func buildPackages(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	binary := filepath.Join(dir, "halley")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "halley/function/standalone").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	writeArchive(t, dir, runtime.GOOS, runtime.GOARCH, content)
	if _, err := write(dir, "../../languages", "1.2.3", ""); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeArchive(t *testing.T, dir, system, arch string, binary []byte) {
	t.Helper()
	packed, err := zipped([]file{{name: "halley", content: binary, executable: true}, {name: "LICENSE", content: []byte("terms\n")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("halley-%s-%s.zip", system, arch)), packed, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The commands of the pages of languages work in their order, from an empty directory and
// without Go: the packages are installed without a registry.
func TestPagesOfLanguages(t *testing.T) {
	long.Only(t, "builds a wheel and an npm package")
	packages := buildPackages(t)
	for _, page := range []struct {
		file, interpreter string
		want              []string
	}{
		{"python.md", "python3", []string{"Ran 1 test", "Ran 2 tests", "OK", "orders: [('1001', 12.5), ('1002', 80.0), ('1003', 7.25)]"}},
		{"typescript.md", "node", []string{"# pass 1", "# pass 2", "1001.json\n1002.json\n1003.json\n"}},
	} {
		t.Run(page.file, func(t *testing.T) {
			t.Parallel()
			interpreter, err := exec.LookPath(page.interpreter)
			if err != nil {
				t.Skipf("%s is not installed: no function in its language to run", page.interpreter)
			}
			cmd := exec.Command("sh", "-c", commandsOf(t, "../../docs/"+page.file))
			cmd.Dir = t.TempDir()
			cmd.Env = []string{
				"PACKAGES=" + packages, "HOME=" + t.TempDir(), "npm_config_offline=true", "npm_config_update_notifier=false",
				"PIP_DISABLE_PIP_VERSION_CHECK=1", "PATH=" + filepath.Dir(interpreter) + ":/usr/bin:/bin", // without Go
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range append(page.want, "every change was handled, or dead-lettered after its last attempt (1)", "the order has no total", "ok    orders: function of HALLEY_ORDERS_COMMAND") {
				if !strings.Contains(string(out), want) {
					t.Errorf("the commands do not print %q:\n%s", want, out)
				}
			}
		})
	}
}

// commandsOf returns the commands of a page, as a script.
func commandsOf(t *testing.T, path string) string {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	script.WriteString("set -eu\n")
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(page, -1) {
		script.Write(block[1])
	}
	return script.String()
}
