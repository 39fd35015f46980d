package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"halley/tests/bench/report"
	"halley/tests/freeport"
	"halley/trigger/emulator"
)

// coldStart measures packaged binaries: from exec to the first answer, memory, size.
func (s *suite) coldStart() (report.Section, error) {
	section := report.Section{Title: "Cold start and size", Text: "Binaries as `package` builds them, as Azure Functions starts them. The floor is a program of net/http alone. " +
		"The app is that of `new app`, with one handler; the demo has two, and all dead letter stores."}
	app, err := s.packageApp()
	if err != nil {
		return section, err
	}
	v, err := s.serve()
	if err != nil {
		return section, err
	}
	defer v.close()
	binaries := map[string]string{colFloor: s.binary("bare"), colHalley: app}
	millis, memory := map[string]report.Samples{}, map[string]report.Samples{}
	for range 3 * s.rounds {
		for column, binary := range binaries {
			took, resident, err := v.firstAnswer(binary)
			if err != nil {
				return section, err
			}
			millis[column] = append(millis[column], float64(took.Microseconds())/1000)
			memory[column] = append(memory[column], resident)
		}
	}
	initialisation := map[string]report.Samples{}
	for column, binary := range binaries {
		for range s.rounds {
			took, ofIdentity, err := v.packageInit(binary)
			if err != nil {
				return section, err
			}
			initialisation[column] = append(initialisation[column], took)
			if column == colHalley {
				initialisation[identityPart] = append(initialisation[identityPart], ofIdentity)
			}
		}
	}
	cells := func(samples map[string]report.Samples) map[string]string {
		return map[string]string{colFloor: report.Number(samples[colFloor].Median()), colHalley: report.Number(samples[colHalley].Median())}
	}
	section.Rows = []report.Row{
		{Name: "exec to first answer, ms", Cells: cells(millis), Goals: []report.Goal{{Text: "≤ 1.3 × the floor", Got: millis[colHalley].Over(millis[colFloor]).Median(), Limit: 1.3,
			Obstacle: fmt.Sprintf("the packages of the app and of its modules initialise in %.2f ms, those of the floor in %.2f ms; Microsoft's libraries for Entra ID take %.2f ms of it", initialisation[colHalley].Median(), initialisation[colFloor].Median(), initialisation[identityPart].Median())}}},
		{Name: "resident memory then, MiB", Cells: cells(memory), Goals: []report.Goal{{Text: "≤ 14 MiB", Got: memory[colHalley].Median(), Limit: 14, Show: report.Unit("MiB")}}},
	}
	for _, file := range []struct {
		name, path string
		limit      float64 // in MB; 0 is none
	}{{"bare net/http", s.binary("bare"), 0}, {"app", app, 13.5}, {"demo", filepath.Join(s.binary("demo"), "halley"), 17}} {
		info, err := os.Stat(file.path)
		if err != nil {
			return section, err
		}
		size := float64(info.Size()) / 1e6
		row := report.Row{Name: "binary, MB: " + file.name, Cells: map[string]string{colHalley: report.Number(size)}}
		if file.limit > 0 {
			row.Goals = []report.Goal{{Text: fmt.Sprintf("≤ %g MB", file.limit), Got: size, Limit: file.limit, Show: report.Unit("MB")}}
		} else {
			row.Cells = map[string]string{colFloor: report.Number(size)}
		}
		section.Rows = append(section.Rows, row)
	}
	return section, nil
}

// packageApp makes an app with new app and returns its packaged binary.
func (s *suite) packageApp() (string, error) {
	directory := s.binary("shop")
	if _, err := output(s.ctx, s.root, "go", "run", "./function", "new", "app", directory); err != nil {
		return "", err
	}
	if _, err := output(s.ctx, directory, "go", "run", ".", "package", "--arch", runtime.GOARCH, "--output", s.binary("shop.zip")); err != nil {
		return "", err
	}
	if err := unzip(s.binary("shop.zip"), s.binary("shop-package")); err != nil {
		return "", err
	}
	return filepath.Join(s.binary("shop-package"), "shop"), nil
}

// firstAnswer starts a binary as the Functions host does, and returns the time to its
// first answer and its resident memory at that moment, in MiB.
func (v *service) firstAnswer(binary string) (took time.Duration, resident float64, err error) {
	return v.answer(binary, nil)
}

// answer is firstAnswer with more variables. The binary's standard error goes to stderr.
func (v *service) answer(binary string, stderr io.Writer, variables ...string) (took time.Duration, resident float64, err error) {
	port, err := freeport.Find()
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(v.suite.ctx, 20*time.Second)
	defer cancel()
	cmd := v.suite.command(ctx, 1, binary)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Dir(binary), nil, stderr
	cmd.Env = append(append(v.environment(nil), variables...), fmt.Sprintf("FUNCTIONS_CUSTOMHANDLER_PORT=%d", port), "FUNCTIONS_WORKER_RUNTIME=custom",
		"CosmosDB=AccountEndpoint="+v.endpoint+";AccountKey="+emulator.Key+";", "HALLEY_DATABASE_NAME=bench", "HALLEY_CONTAINER_NAME=items")
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	took, err = awaitAnswer(ctx, fmt.Sprintf("http://127.0.0.1:%d/", port), began)
	if err == nil {
		resident, err = residentMiB(cmd.Process.Pid)
	}
	cancel()
	var exit *exec.ExitError
	if ended := cmd.Wait(); err == nil && !errors.As(ended, &exit) {
		err = ended
	}
	if err != nil {
		err = fmt.Errorf("%s does not answer: %w", filepath.Base(binary), err)
	}
	return took, resident, err
}

// identityPart is the part of the initialisation that is for tokens of Entra ID.
const identityPart = "identity"

// packageInit starts a binary as firstAnswer does and returns the milliseconds that its
// packages took to initialise, as the Go runtime reports them (GODEBUG=inittrace=1), and
// those of the packages for Entra ID.
func (v *service) packageInit(binary string) (millis, ofIdentity float64, err error) {
	var trace bytes.Buffer
	if _, _, err := v.answer(binary, &trace, "GODEBUG=inittrace=1"); err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(trace.String()) {
		// init internal/bytealg @0.008 ms, 0 ms clock, 0 bytes, 0 allocs
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[0] != "init" {
			continue
		}
		took, err := strconv.ParseFloat(fields[4], 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: line of inittrace %q: %w", filepath.Base(binary), line, err)
		}
		millis += took
		if strings.HasPrefix(fields[1], "github.com/AzureAD/") || strings.HasPrefix(fields[1], "github.com/Azure/azure-sdk-for-go/sdk/azidentity") {
			ofIdentity += took
		}
	}
	return millis, ofIdentity, nil
}

// awaitAnswer returns the time from began to the first answer to GET, of any status.
func awaitAnswer(ctx context.Context, url string, began time.Time) (time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		response, err := client.Do(request)
		if err == nil {
			return time.Since(began), response.Body.Close()
		}
		if ctx.Err() != nil {
			return 0, err
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// residentMiB is the resident memory of a process on Linux.
func residentMiB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(status))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of process %d is %q", pid, status)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()) / (1 << 20), err
}
