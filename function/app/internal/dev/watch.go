//go:build !nodev

package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operatorpage"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
)

// watch runs the handlers in another process, and replaces it when a file of their source
// changes, until ctx ends. The account, the load and the services stay in this
// process. That process serves the page, if at is not nil: at its address and with its
// token, so that a browser finds it again.
func (s *session) watch(ctx context.Context, at *operatorpage.Listener) (runSummary, error) {
	source, err := s.findSource(ctx)
	if err != nil {
		return runSummary{}, err
	}
	defer source.remove()
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { s.rebuild(working, source, at) })
	s.write(ctx, working)
	lags := s.catchUp(working)
	stop()
	running.Wait()
	return s.summary(lags), nil
}

// rebuild keeps one process of the app running until ctx ends. The first is this
// program; each further one is built from the source, or this program again if its
// handlers are in files that it reads.
func (s *session) rebuild(ctx context.Context, source watchedSource, at *operatorpage.Listener) {
	format := settings.FormatJSON
	if s.show.live {
		format = settings.FormatText
	}
	show, env := s.show, s.world.childEnv(format)
	args := []string{"run", "--" + WatchedFlag}
	if at != nil {
		at.Shut()
		args, env = append(args, "--page", at.Addr().String()), append(env, "HALLEY_PAGE_TOKEN="+at.Token)
	}
	program, err := os.Executable()
	var running *child
	for state := source.state(); ctx.Err() == nil; state = source.waitForChange(ctx, state) {
		if running != nil {
			show.say("a file of the source has changed")
			program, err = source.build(ctx)
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			show.say(text.OfError(err))
			continue
		}
		if running != nil {
			running.stop(time.Duration(s.world.settings.App.StopGrace))
			show.say("running the new source")
		}
		if running, err = startChild(program, args, env, show); err != nil {
			show.say(text.OfError(err))
		}
	}
	if running != nil {
		running.stop(time.Duration(s.world.settings.App.StopGrace))
	}
}

// watchedSource are the files that the handlers are in.
type watchedSource struct {
	dir       string
	isPart    func(name string) bool
	build     func(ctx context.Context) (program string, err error)
	temporary string // directory for builds; "" if there are none
}

func (w watchedSource) remove() {
	if w.temporary != "" {
		_ = os.RemoveAll(w.temporary) // in the directory for temporary files
	}
}

// findSource returns the files of the program's functions in other languages, or the
// module that this program was built from.
func (s *session) findSource(ctx context.Context) (watchedSource, error) {
	sources := s.world.program.Sources
	if len(sources) == 0 {
		return findModule(ctx)
	}
	dir, err := os.Getwd()
	return watchedSource{
		dir:    dir,
		isPart: func(name string) bool { return slices.Contains(sources, filepath.Ext(name)) },
		build:  func(context.Context) (string, error) { return os.Executable() },
	}, err
}

// findModule returns the module that this program was built from, if the current directory
// is in it.
func findModule(ctx context.Context) (watchedSource, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return watchedSource{}, errors.New("--watch: this program does not know its module: build it with modules")
	}
	found, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Path}}\n{{.Dir}}")
	if err != nil {
		return watchedSource{}, fmt.Errorf("--watch builds the app with the go command: %w", err)
	}
	module, dir, _ := strings.Cut(strings.TrimSpace(string(found)), "\n")
	if module != info.Main.Path {
		return watchedSource{}, fmt.Errorf("--watch builds %s: start dev in a directory of the module %s, not of %s", info.Path, info.Main.Path, module)
	}
	builds, err := os.MkdirTemp("", "halley-dev-")
	return watchedSource{
		dir: dir, temporary: builds, isPart: isGoSource,
		build: func(ctx context.Context) (string, error) { return buildIn(ctx, dir, info.Path, builds) },
	}, err
}

// isGoSource reports whether a file is a Go file that is not a test, or go.mod.
func isGoSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") || name == "go.mod" || name == "go.sum"
}

// buildIn returns the path of a new program. The error of a build has the compiler's text.
func buildIn(ctx context.Context, dir, main, builds string) (program string, err error) {
	program = filepath.Join(builds, fmt.Sprintf("app-%d", time.Now().UnixNano()))
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	_, err = goCommand(ctx, dir, "build", "-o", program, main)
	return program, err
}

// goCommand runs the go command and returns its output.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Stderr = dir, &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// watchEvery is the time between two looks at the source.
const watchEvery = 500 * time.Millisecond

// waitForChange returns the state of the source when it is no longer the given one and
// has stayed the same for one look, or when ctx ends.
func (w watchedSource) waitForChange(ctx context.Context, from string) string {
	last := from
	for hosting.Pause(ctx, watchEvery) {
		now := w.state()
		if now != from && now == last {
			return now
		}
		last = now
	}
	return last
}

// state changes when a file of the source changes.
func (w watchedSource) state() string {
	var state strings.Builder
	_ = filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error { // what cannot be read has no state
		name := d.Name()
		if err != nil {
			return nil
		}
		if d.IsDir() {
			if path != w.dir && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !w.isPart(name) {
			return nil
		}
		if info, err := d.Info(); err == nil {
			fmt.Fprintln(&state, path, info.ModTime().UnixNano(), info.Size())
		}
		return nil
	})
	return state.String()
}

// child is the app in another process. It stops in good order when its standard input
// ends.
type child struct {
	process *exec.Cmd
	stdin   io.Closer
	ended   chan struct{}
}

// startChild runs the handlers with the output on show, which also tells of their end.
func startChild(program string, args, env []string, show *screen) (*child, error) {
	c := &child{process: exec.Command(program, args...), ended: make(chan struct{})}
	c.process.Env, c.process.Stdout, c.process.Stderr = env, show, show
	ownGroup(c.process)
	stdin, err := c.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		if err := c.process.Wait(); err != nil {
			show.say(fmt.Sprintf("the handlers have ended: %v; change a file of the source to start them again", err))
		}
		close(c.ended)
	}()
	return c, nil
}

// stop ends the process: in good order, or by force if that takes too long.
func (c *child) stop(grace time.Duration) {
	_ = c.stdin.Close() // an error means that the process has ended
	select {
	case <-c.ended:
	case <-time.After(2*grace + 5*time.Second):
		_ = c.process.Process.Kill() // as above
		<-c.ended
	}
}
