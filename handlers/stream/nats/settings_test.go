package nats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"halley/handlers"
)

func TestBadSettingsNameTheFix(t *testing.T) {
	good := Settings{URL: []handlers.URL{"nats://127.0.0.1:1"}, Subject: "halley", UpsertOp: "r", PublishTimeout: handlers.Interval(time.Second)}
	noSeed := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(noSeed, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(s *Settings)
		want   string
	}{
		{"no URL", func(s *Settings) { s.URL = nil }, "setting HALLEY_NATS_URL is empty; set it to a URL such as nats://"},
		{"not NATS", func(s *Settings) { s.URL = []handlers.URL{"http://me:hunter2@nats"} }, "setting HALLEY_NATS_URL has http://[redacted]@nats, which is not the URL of a NATS server"},
		{"password with a slash", func(s *Settings) { s.URL = []handlers.URL{"nats://me:hunter2/@nats"} }, "percent-encode the password"},
		{"placeholder", func(s *Settings) { s.Subject = "halley.{id}" }, "setting HALLEY_NATS_SUBJECT has {id}, which stands for nothing; write a subject"},
		{"wildcard", func(s *Settings) { s.Subject = "halley.>" }, "SUBJECT has a space or a wildcard"},
		{"empty token", func(s *Settings) { s.Subject = "halley..a" }, "SUBJECT has an empty token"},
		{"long", func(s *Settings) { s.Subject = strings.Repeat("x", 3000) }, "SUBJECT has 3000 bytes, more than 2048"},
		{"op", func(s *Settings) { s.UpsertOp = "x" }, `setting HALLEY_NATS_UPSERT_OP is "x"; set r`},
		{"timeout", func(s *Settings) { s.PublishTimeout = 0 }, "PUBLISH_TIMEOUT is 0s; set 1ms or more"},
		{"two logins", func(s *Settings) { s.Token, s.NkeyFile = "hunter2", noSeed }, "NKEY_FILE and TOKEN are set; set one of them"},
		{"no seed", func(s *Settings) { s.NkeyFile = noSeed }, "setting HALLEY_NATS_NKEY_FILE has no NKey seed of a user"},
		{"no credentials", func(s *Settings) { s.CredentialsFile = noSeed + "x" }, "CREDENTIALS_FILE cannot be read"},
		{"half a pair", func(s *Settings) { s.CertFile = noSeed }, "CERT_FILE and KEY_FILE belong together"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := good
			test.change(&s)
			_, _, err := Open(t.Context(), handlers.Env{Prefix: "HALLEY_NATS_"}, s)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}
