package remote

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/handlerstest/parallel"
	"halley/trigger"
)

// Most tests wait for processes. They run at once, so each gives its handler settings that
// the environment does not have.
func TestMain(m *testing.M) {
	parallel.AtOnce(8)
	if err := setPythonPath("../../languages/python", "testdata"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// setPythonPath lets all processes in Python import modules of the directories.
func setPythonPath(directories ...string) error {
	for i, directory := range directories {
		absolute, err := filepath.Abs(directory)
		if err != nil {
			return err
		}
		directories[i] = absolute
	}
	return errors.Join(
		os.Setenv("PYTHONPATH", strings.Join(directories, string(os.PathListSeparator))),
		os.Setenv("PYTHONDONTWRITEBYTECODE", "1"))
}

// language runs testdata/function in one language.
type language struct {
	name    string
	program func() (path string, err error)
	file    string
}

var languages = []language{
	{"Python", program("python3", "-c", "import sys; print(sys.executable)"), "function.py"},
	{"Node.js", program("node", "-p", "process.execPath"), "function.mjs"},
}

// program returns a function that finds a program once. The program in PATH may be a
// script of a version manager, which starts slowly; with arguments, the program itself
// prints its path.
func program(name string, arguments ...string) func() (path string, err error) {
	return sync.OnceValues(func() (string, error) {
		path, err := exec.Command(name, arguments...).Output()
		return strings.TrimSpace(string(path)), err
	})
}

var python, node = languages[0], languages[1]

// command returns the words that start the function, with its state in a file. The test
// is skipped if the language is not installed.
func (l language) command(t testing.TB, transport, state string) []string {
	t.Helper()
	path, err := l.program()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("%s is not installed: no function in it to test with", l.name)
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs(filepath.Join("testdata", l.file))
	if err != nil {
		t.Fatal(err)
	}
	return []string{path, file, transport, state}
}

// setting changes settings of the handler.
type setting = func(*Settings)

// commandSetting has the handler start the function.
func (l language) commandSetting(t testing.TB, state string) setting {
	t.Helper()
	return commandSetting(t, l.command(t, "stdio", state)...)
}

// commandSetting has the handler start a program.
func commandSetting(t testing.TB, words ...string) setting {
	t.Helper()
	command := commandLine(t, words...)
	return func(s *Settings) { s.Command = command }
}

// commandLine is a program and its arguments as a setting.
func commandLine(t testing.TB, words ...string) string {
	t.Helper()
	line, err := json.Marshal(words)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// urlSetting has the handler call a server.
func urlSetting(url string) setting {
	return func(s *Settings) { s.URL = handlers.URL(url) }
}

// timeoutSetting bounds a call.
func timeoutSetting(d time.Duration) setting {
	return func(s *Settings) { s.RequestTimeout = handlers.Interval(d) }
}

// serve starts the function as a server, and returns its URL.
func (l language) serve(t testing.TB, state string) (url string) {
	t.Helper()
	words := l.command(t, "http", state)
	server := exec.Command(words[0], words[1:]...)
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill() // it may have exited
		_ = server.Wait()         // it was killed
	})
	port, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the server printed no port: %v", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port) + "/"
}

// eachFunction runs a test with both languages over both transports. The short form has each
// language and each transport once.
func eachFunction(t *testing.T, test func(t *testing.T, function setting)) {
	t.Parallel()
	for i, l := range languages {
		if handlerstest.IsLong() || i%2 == 0 {
			t.Run(l.name+" over HTTP", func(t *testing.T) {
				t.Parallel()
				test(t, urlSetting(l.serve(t, filepath.Join(t.TempDir(), "state"))))
			})
		}
		if handlerstest.IsLong() || i%2 == 1 {
			t.Run(l.name+" as command", func(t *testing.T) {
				t.Parallel()
				test(t, l.commandSetting(t, filepath.Join(t.TempDir(), "state")))
			})
		}
	}
}

// stateAt reads the documents of a server.
func stateAt(t testing.TB, url string) (documents []map[string]any) {
	t.Helper()
	response, err := http.Get(url + "state")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &documents); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return documents
}

// entryWith returns the handler, whose settings are changed before it opens.
func entryWith(changes ...setting) handlers.Entry {
	return handlerstest.Entry("remote", Open, changes...)
}

// opened opens the handler with changes of its default settings.
func opened(t testing.TB, changes ...setting) trigger.Handler {
	t.Helper()
	return handlerstest.Under(t, entryWith(changes...), handlers.Env{})
}
