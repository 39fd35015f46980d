package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"halley/tests/long"
)

// The commands of the page docs/getting-started.md work in their order.
func TestGettingStarted(t *testing.T) {
	long.Only(t, "builds the demo and an app")
	t.Parallel()
	page, err := os.ReadFile("../docs/getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	script.WriteString("set -eux\n")
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(page, -1) {
		script.Write(block[1])
	}
	halley := copyModule(t)
	cmd := exec.Command("sh", "-c", script.String())
	cmd.Dir, cmd.Env = halley, environ(nil)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"every change was handled", "ok  \texample.com/shop/orders", "ok  \texample.com/shop/refunds"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands do not print %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(halley, "../shop/dist/shop.zip")); err != nil {
		t.Error(err)
	}
}
