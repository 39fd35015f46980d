package remote

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
)

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

// setCommand has the handler start the function.
func (l language) setCommand(t testing.TB, state string) {
	t.Helper()
	words, err := json.Marshal(l.command(t, "stdio", state))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HALLEY_REMOTE_COMMAND", string(words))
	t.Setenv("HALLEY_REMOTE_URL", "")
}

// serve starts the function as a server, sets it for the handler, and returns its URL.
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
	url = "http://127.0.0.1:" + strings.TrimSpace(port) + "/"
	t.Setenv("HALLEY_REMOTE_URL", url)
	t.Setenv("HALLEY_REMOTE_COMMAND", "")
	return url
}

// eachFunction runs a test with both languages over both transports. The short form has each
// language and each transport once.
func eachFunction(t *testing.T, test func(t *testing.T)) {
	for i, l := range languages {
		if handlerstest.IsLong() || i%2 == 0 {
			t.Run(l.name+" over HTTP", func(t *testing.T) {
				l.serve(t, filepath.Join(t.TempDir(), "state"))
				test(t)
			})
		}
		if handlerstest.IsLong() || i%2 == 1 {
			t.Run(l.name+" as command", func(t *testing.T) {
				l.setCommand(t, filepath.Join(t.TempDir(), "state"))
				test(t)
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

var entry = handlers.New("remote", "calls a function in another language", Open)

// opened opens the handler from the settings of the environment.
func opened(t testing.TB) trigger.Handler {
	t.Helper()
	return handlerstest.Under(t, entry, handlers.Env{})
}
