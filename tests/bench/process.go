package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"halley/trigger/emulator"
)

// processors returns the processors that this process may use, on Linux.
func processors() []string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return parseProcessors(strings.TrimSpace(list))
		}
	}
	return nil
}

// parseProcessors reads a list such as 0-3,8.
func parseProcessors(list string) []string {
	var found []string
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if err != nil || errTo != nil {
			return nil
		}
		for n := from; n <= to; n++ {
			found = append(found, strconv.Itoa(n))
		}
	}
	return found
}

// command returns a command on one processor, 0 for the service and 1 for contenders.
// Without taskset or a second processor it runs on any.
func (s *suite) command(ctx context.Context, processor int, name string, arguments ...string) *exec.Cmd {
	if s.pinned {
		arguments = append([]string{"-c", s.processors[processor], name}, arguments...)
		name = "taskset"
	}
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// service is a running server.
type service struct {
	suite    *suite
	cmd      *exec.Cmd
	stdin    io.Closer
	endpoint string
	cert     string // file
	client   *http.Client
}

// serve starts a server with the given flags.
func (s *suite) serve(flags ...string) (*service, error) {
	s.servers++
	v := &service{suite: s, cert: filepath.Join(s.work, fmt.Sprintf("server-%d.pem", s.servers))}
	v.cmd = s.command(s.ctx, 0, s.binary("server"), append(flags, "-cert", v.cert)...)
	stdin, err := v.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := v.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := v.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	v.stdin = stdin
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start server: %w", err), v.cmd.Wait())
	}
	v.endpoint = strings.TrimSpace(line)
	pem, err := os.ReadFile(v.cert)
	if err != nil {
		return nil, errors.Join(err, v.stop())
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	v.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	return v, nil
}

// stop ends the server.
func (v *service) stop() error {
	err := v.stdin.Close()
	return errors.Join(err, v.cmd.Wait())
}

// close stops the server at the end of a measurement, whose own error matters more.
func (v *service) close() {
	if err := v.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop server:", err)
	}
}

// counts are the requests that a server has answered.
type counts struct {
	Requests    map[string]float64
	Units       map[string]float64
	Connections float64
}

func (v *service) counts() (c counts, err error) {
	response, err := v.client.Get(v.endpoint + "bench/counts")
	if err != nil {
		return c, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&c)
	return c, err
}

// since returns the requests and request units after an earlier count.
func (c counts) since(before counts) counts {
	later := counts{map[string]float64{}, map[string]float64{}, c.Connections}
	for kind, n := range c.Requests {
		later.Requests[kind] = n - before.Requests[kind]
		later.Units[kind] = c.Units[kind] - before.Units[kind]
	}
	return later
}

// units are the request units of all requests.
func (c counts) units() (sum float64) {
	for _, units := range c.Units {
		sum += units
	}
	return sum
}

// reads are the requests that read the feed.
func (c counts) reads() float64 { return c.Requests["feed"] + c.Requests["emptyFeed"] }

// variables are the settings of a contender, without BENCH_.
type variables map[string]string

// figures are the results of a contender.
type figures map[string]float64

// contender is a program that is measured.
type contender struct {
	name    string
	command []string
	setup   func(v *service) ([]string, error) // further environment, nil for none
	beside  bool                               // it runs on the processor of the service, because another contender is measured
}

// environment returns the variables of a contender that works against the service.
func (v *service) environment(set variables) []string {
	env := append(os.Environ(), "BENCH_ENDPOINT="+v.endpoint, "BENCH_KEY="+emulator.Key, "SSL_CERT_FILE="+v.cert)
	for name, value := range set {
		env = append(env, "BENCH_"+name+"="+value)
	}
	return env
}

// start starts a contender; its figures are the result of the returned function.
func (v *service) start(ctx context.Context, c contender, set variables) (func() (figures, error), error) {
	processor := 1
	if c.beside {
		processor = 0
	}
	cmd := v.suite.command(ctx, processor, c.command[0], c.command[1:]...)
	cmd.Env = v.environment(set)
	if c.setup != nil {
		more, err := c.setup(v)
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, more...)
	}
	var output bytes.Buffer
	cmd.Stdout = &output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return func() (figures, error) {
		if err := cmd.Wait(); err != nil {
			return nil, fmt.Errorf("%s with %v: %w", c.name, set, err)
		}
		var found figures
		if err := json.Unmarshal(output.Bytes(), &found); err != nil {
			return nil, fmt.Errorf("%s printed %q: %w", c.name, output.String(), err)
		}
		return found, nil
	}, nil
}

// run runs a contender to its end.
func (v *service) run(c contender, set variables) (figures, error) {
	wait, err := v.start(v.suite.ctx, c, set)
	if err != nil {
		return nil, err
	}
	return wait()
}

// runBeside runs a contender while another one runs, which is then ended.
func (v *service) runBeside(c contender, set variables, other contender, otherSet variables) (figures, error) {
	ctx, cancel := context.WithCancel(v.suite.ctx)
	wait, err := v.start(ctx, other, otherSet)
	if err != nil {
		cancel()
		return nil, err
	}
	found, err := v.run(c, set)
	cancel()
	_, _ = wait() // it was killed
	return found, err
}
