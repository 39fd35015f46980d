package tests

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"halley/trigger/emulator"
)

// BenchmarkFirstAnswer measures the time from the start of the packaged demo's process
// to its first answer, also as a multiple of that of a bare net/http server in the same
// run, and the resident memory after it. The figures are medians.
func BenchmarkFirstAnswer(b *testing.B) {
	dir := b.TempDir()
	app, bare := filepath.Join(dir, "app"), filepath.Join(dir, "bare")
	buildLean(b, app, "lambda.norpc,nodev", "halley/function")
	buildLean(b, bare, "", "halley/tests/bareserver")
	settings := []string{
		"HALLEY_FUNCTIONS=leaderboard", "HALLEY_DATABASE_NAME=db", "HALLEY_CONTAINER_NAME=items", "HALLEY_LEADERBOARD_REDIS_URL=redis://127.0.0.1:1/0",
		"CosmosDB=AccountEndpoint=https://127.0.0.1:1/;AccountKey=" + emulator.Key + ";",
	}
	var apps, bares []time.Duration
	var resident []float64
	for b.Loop() {
		took, _ := firstAnswer(b, bare, nil)
		bares = append(bares, took)
		took, memory := firstAnswer(b, app, settings)
		apps, resident = append(apps, took), append(resident, memory)
	}
	slices.Sort(apps)
	slices.Sort(bares)
	slices.Sort(resident)
	middle := len(apps) / 2
	b.ReportMetric(float64(apps[middle].Microseconds())/1000, "ms-first-answer")
	b.ReportMetric(float64(apps[middle])/float64(bares[middle]), "x-bare")
	b.ReportMetric(resident[middle], "MiB")
}

// buildLean builds a program as the command package does.
func buildLean(b *testing.B, path, tags, source string) {
	b.Helper()
	build := exec.Command("go", "build", "-trimpath", "-tags", tags, "-ldflags", "-s -w", "-o", path, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v\n%s", source, err, out)
	}
}

// firstAnswer starts a custom handler and ends it after its first answer, whatever its
// status. It returns the time to that answer and the resident memory in MiB, 0 if the
// system does not tell.
func firstAnswer(b *testing.B, program string, settings []string) (took time.Duration, resident float64) {
	b.Helper()
	address := freeAddress(b)
	_, port, _ := strings.Cut(address, ":")
	server := exec.Command(program)
	server.Env = append(settings, "FUNCTIONS_CUSTOMHANDLER_PORT="+port)
	began := time.Now()
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	}()
	for {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			defer connection.Close()
			fmt.Fprintf(connection, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if _, err := bufio.NewReader(connection).ReadString('\n'); err != nil {
				b.Fatal(err)
			}
			took = time.Since(began)
			break
		}
		if time.Since(began) > 10*time.Second {
			b.Fatal(err)
		}
		<-time.After(50 * time.Microsecond)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", server.Process.Pid))
	if err != nil {
		return took, 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return took, float64(pages*os.Getpagesize()) / (1 << 20)
}
