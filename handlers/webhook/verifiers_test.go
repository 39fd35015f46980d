package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"halley/handlers/webhook/receiver"
	"halley/trigger/triggertest"
)

// The standard's own libraries for Node.js and Python accept the messages, with either
// of two secrets, and refuse what was changed on the way.
func TestStandardLibrariesVerifyMessages(t *testing.T) {
	r := startReceiver(t)
	old := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 64)))
	t.Setenv("HALLEY_WEBHOOK_SECRETS", secret+" "+old)
	changes := upserts("1 ada", "2 bob")
	changes = append(changes, triggertest.Upsert(`{"id":"3","text":"Grüße, 世界 <&> \u2028 \"quoted\""}`, "3"), triggertest.Delete("4", "4"))
	if v := triggertest.Deliver(t, openHandler(t), changes...); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	var lines []string
	var want []string
	add := func(secret string, q receiver.Request, body []byte, verdict string) {
		headers := map[string]string{}
		for name := range q.Header {
			headers[name] = q.Header.Get(name)
		}
		line, err := json.Marshal(map[string]any{"secret": secret, "headers": headers, "body": string(body)})
		if err != nil {
			t.Fatal(err)
		}
		lines, want = append(lines, string(line)), append(want, verdict)
	}
	for _, q := range r.Requests() {
		var m receiver.Message
		if err := json.Unmarshal(q.Body, &m); err != nil {
			t.Fatal(err)
		}
		add(secret, q, q.Body, m.Type)
		add(old, q, q.Body, m.Type)
		add(secret, q, append([]byte(" "), q.Body...), "refused: No matching signature found")
		add("whsec_"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 32))), q, q.Body, "refused: No matching signature found")
	}
	input := strings.Join(lines, "\n") + "\n"
	t.Run("node", func(t *testing.T) {
		modules := os.Getenv("HALLEY_TEST_WEBHOOK_NODE")
		if modules == "" {
			t.Skip("HALLEY_TEST_WEBHOOK_NODE is not set: no directory with node_modules/standardwebhooks to verify with")
		}
		runVerifier(t, input, want, "node", "testdata/verify.js", modules)
	})
	t.Run("python", func(t *testing.T) {
		python := os.Getenv("HALLEY_TEST_WEBHOOK_PYTHON")
		if python == "" {
			t.Skip("HALLEY_TEST_WEBHOOK_PYTHON is not set: no Python with the package standardwebhooks to verify with")
		}
		runVerifier(t, input, want, python, "testdata/verify.py")
	})
}

func runVerifier(t *testing.T, input string, want []string, name string, args ...string) {
	t.Helper()
	script, err := filepath.Abs(args[0])
	if err != nil {
		t.Fatal(err)
	}
	verifier := exec.Command(name, append([]string{script}, args[1:]...)...)
	verifier.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	verifier.Stderr = &stderr
	out, err := verifier.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
