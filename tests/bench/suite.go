package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"halley/tests/bench/report"
)

// suite has the programs and settings that all measures share.
type suite struct {
	ctx        context.Context
	short      bool
	rounds     int
	root       string // of the repository
	work       string // directory that close removes
	cache      string // of packages from registries, kept between runs
	processors []string
	pinned     bool
	servers    int      // started so far
	commit     string   // that is measured; "" in the short form
	load       string   // average of the machine at the start
	missing    []string // peers that could not be installed, with the reason
	experiment string   // GOEXPERIMENT of packaged binaries; "" is none

	testServers []string // HALLEY_TEST_ variables, for the handlers; apps refuse them

	halley, plain                contender // plain is the build without the experiment
	azcosmos, javaScript, javaVM contender
	python                       contender
}

// takeTestServers removes the variables that name servers of tests from the environment,
// and returns them.
func takeTestServers() (taken []string) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "HALLEY_TEST_") {
			taken = append(taken, variable)
			_ = os.Unsetenv(name) // the name is valid
		}
	}
	return taken
}

// newSuite builds the programs of the benchmark and installs the peers.
func newSuite(ctx context.Context, short bool, rounds int) (*suite, error) {
	s := &suite{ctx: ctx, short: short, rounds: rounds, processors: processors(), load: loadAverage(), testServers: takeTestServers()}
	if rounds == 0 {
		s.rounds = 5
		if short {
			s.rounds = 3
		}
	}
	_, err := exec.LookPath("taskset")
	s.pinned = err == nil && len(s.processors) >= 2
	if s.root, err = output(ctx, "", "go", "list", "-f", "{{.Module.Dir}}", "halley/tests/bench"); err != nil {
		return nil, err
	}
	if !short {
		if s.commit, err = output(ctx, s.root, "git", "describe", "--always", "--dirty", "--abbrev=12"); err != nil {
			return nil, err
		}
	}
	if s.cache = os.Getenv("OUTSIDE_CACHE"); s.cache == "" {
		caches, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		s.cache = filepath.Join(caches, "halley-outside")
	}
	if s.work, err = os.MkdirTemp("", "halley-bench-"); err != nil {
		return nil, err
	}
	if err := s.build(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *suite) close() {
	if err := os.RemoveAll(s.work); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

func (s *suite) binary(name string) string { return filepath.Join(s.work, name) }

// output runs a command in a directory and returns its standard output.
func output(ctx context.Context, directory, name string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir, cmd.Stderr = directory, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// goBuild builds a package of the benchmark with the flags of packaged binaries.
func (s *suite) goBuild(directory, target, experiment string) error {
	cmd := exec.CommandContext(s.ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", s.binary(target), ".")
	cmd.Dir, cmd.Stderr = filepath.Join(s.root, "tests", "bench", directory), os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off") // a peer is a module of its own
	if experiment != "" {
		cmd.Env = append(cmd.Env, "GOEXPERIMENT="+experiment)
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", directory, err)
	}
	return nil
}

// build builds the programs in Go, and installs the peers in other languages unless
// the form is the short one.
func (s *suite) build() error {
	if err := s.packageDemo(); err != nil {
		return err
	}
	err := errors.Join(
		s.goBuild("server", "server", ""), s.goBuild("bare", "bare", ""), s.goBuild("peers/azcosmos", "azcosmos", ""),
		s.goBuild("client", "client", s.experiment),
	)
	s.halley = contender{name: colHalley, command: []string{s.binary("client")}}
	s.azcosmos = contender{name: colAzcosmos, command: []string{s.binary("azcosmos")}}
	if s.experiment != "" && err == nil {
		err = s.goBuild("client", "plain", "")
		s.plain = contender{name: colPlain, command: []string{s.binary("plain")}}
	}
	if err != nil || s.short {
		return err
	}
	for _, install := range []func() error{s.installJavaScript, s.installJava, s.installPython} {
		if err := install(); err != nil {
			s.missing = append(s.missing, err.Error())
		}
	}
	return s.ctx.Err()
}

// demoZip is the package of the demo.
func (s *suite) demoZip() string { return s.binary("demo.zip") }

// packageDemo packages the demo, and takes the experiments of Go from its binary: the
// targets are for that build.
func (s *suite) packageDemo() error {
	if _, err := output(s.ctx, s.root, "go", "run", "./function", "package", "--arch", runtime.GOARCH, "--output", s.demoZip()); err != nil {
		return err
	}
	if err := unzip(s.demoZip(), s.binary("demo")); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(filepath.Join(s.binary("demo"), "halley"))
	if err != nil {
		return err
	}
	for _, setting := range info.Settings {
		if setting.Key == "GOEXPERIMENT" {
			s.experiment = setting.Value
		}
	}
	return nil
}

const javaScriptVersion = "4.10.1"

// installJavaScript installs @azure/cosmos, as tests/outside does.
func (s *suite) installJavaScript() error {
	packages := filepath.Join(s.cache, "javascript-"+javaScriptVersion)
	if _, err := os.Stat(filepath.Join(packages, "node_modules", "@azure", "cosmos")); err != nil {
		_, err := output(s.ctx, "", "npm", "install", "--prefix", packages, "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "@azure/cosmos@"+javaScriptVersion)
		if err != nil {
			return fmt.Errorf("@azure/cosmos needs Node and npm: %w", err)
		}
	}
	s.javaScript = contender{name: colJavaScript, command: []string{"node", filepath.Join(s.root, "tests", "bench", "peers", "javascript", "feed.mjs")},
		setup: func(v *service) ([]string, error) {
			return []string{"BENCH_PACKAGES=" + packages, "NODE_EXTRA_CA_CERTS=" + v.cert}, nil
		}}
	return nil
}

// installJava builds the program around the change feed processor.
func (s *suite) installJava() error {
	project := filepath.Join(s.root, "tests", "bench", "peers", "java", "pom.xml")
	classes, paths := s.binary("java"), s.binary("classpath")
	cmd := exec.CommandContext(s.ctx, "mvn", "-q", "-B", "-f", project, "-Dmaven.repo.local="+filepath.Join(s.cache, "maven"),
		"compile", "dependency:build-classpath", "-Dmdep.outputFile="+paths)
	cmd.Env = append(os.Environ(), "BENCH_WORK="+classes)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("azure-cosmos for Java needs a JDK 17 and Maven: %w\n%s", err, out)
	}
	path, err := os.ReadFile(paths)
	if err != nil {
		return err
	}
	s.javaVM = contender{name: colJava, setup: s.trustInJava, command: []string{
		"java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Djavax.net.ssl.trustStorePassword=outside",
		"-Djavax.net.ssl.trustStore=" + s.binary("trust.p12"), "-cp", filepath.Join(classes, "target", "classes") + ":" + string(path), "Processor",
	}}
	return nil
}

// trustInJava makes a store of the server's certificate.
func (s *suite) trustInJava(v *service) ([]string, error) {
	if err := os.Remove(s.binary("trust.p12")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	cmd := exec.CommandContext(s.ctx, "keytool", "-importcert", "-noprompt", "-alias", "account", "-file", v.cert,
		"-keystore", s.binary("trust.p12"), "-storetype", "PKCS12", "-storepass", "outside")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("keytool: %w\n%s", err, out)
	}
	return nil, nil
}

// entrant is a contender with its settings, in a column of a table.
type entrant struct {
	column  string
	program contender
	service *service
	set     variables
}

// results are the figures of entrants by column, one for each round.
type results map[string][]figures

// of returns the samples of one figure.
func (r results) of(column, name string) report.Samples {
	var samples report.Samples
	for _, found := range r[column] {
		samples = append(samples, found[name])
	}
	return samples
}

// interleave runs the entrants in rounds: all of them once, then all of them again,
// each time beginning with another.
func (s *suite) interleave(entrants []entrant) (results, error) {
	found := results{}
	for round := range s.rounds {
		for i := range entrants {
			e := entrants[(i+round)%len(entrants)]
			result, err := e.service.run(e.program, e.set)
			if err != nil {
				return found, err
			}
			found[e.column] = append(found[e.column], result)
		}
	}
	return found, nil
}

// present returns the entrants whose program is installed.
func present(entrants ...entrant) []entrant {
	var installed []entrant
	for _, e := range entrants {
		if len(e.program.command) > 0 {
			installed = append(installed, e)
		}
	}
	return installed
}

// loadAverage is that of the machine over the last minute, on Linux.
func loadAverage() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	average, _, _ := strings.Cut(string(load), " ")
	return average
}

// machine describes the machine, and how busy it was before the first measurement.
func (s *suite) machine() string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d processors, %s/%s; load average at the start: %s", model, max(len(s.processors), runtime.NumCPU()), runtime.GOOS, runtime.GOARCH, s.load)
}
