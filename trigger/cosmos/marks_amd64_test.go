//go:build goexperiment.simd && !go1.27

package cosmos

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVectorCodeLeavesCleanRegisters: between the last vector instruction of markVectors and
// each of its returns there is a VZEROUPPER. No benchmark on an AMD processor shows that one is
// missing.
func TestVectorCodeLeavesCleanRegisters(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "cosmos.test") // that of this run has no symbols
	if out, err := exec.Command("go", "test", "-c", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	out, err := exec.Command("go", "tool", "objdump", "-s", `^halley/trigger/cosmos\.markVectors$`, binary).CombinedOutput()
	if err != nil {
		t.Fatalf("go tool objdump: %v\n%s", err, out)
	}
	dirty, vectors, returns := false, 0, 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		switch instruction := strings.TrimSpace(fields[len(fields)-1]); {
		case strings.HasPrefix(instruction, "VZEROUPPER"):
			dirty = false
		case strings.HasPrefix(instruction, "V"):
			dirty = true
			vectors++
		case strings.HasPrefix(instruction, "RET"):
			returns++
			if dirty {
				t.Errorf("registers are dirty at %s", line)
			}
			dirty = true // a jump from the loop leads to what follows
		}
	}
	if vectors == 0 || returns == 0 {
		t.Errorf("%d vector instructions and %d returns in\n%s", vectors, returns, out)
	}
}
