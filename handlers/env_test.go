package handlers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// prints returns v in every text form in which a setting may appear.
func prints(t *testing.T, v any) string {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	zap.New(core).Info("m", zap.Any("v", v), zap.Reflect("r", v))
	encoded, err := json.Marshal(map[string]any{"v": v, "in": struct{ V any }{v}})
	if err != nil {
		t.Fatal(err)
	}
	logged, err := json.Marshal(logs.All()[0].ContextMap())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%v %+v %#v %s %q %x %d %v %s %s", v, v, v, v, v, v, v, []any{v}, encoded, logged)
}

func TestSecretsAreNotPrinted(t *testing.T) {
	tests := []struct {
		name string
		v    any
		hide string
		show string
	}{
		{"secret", Secret("hunter2"), "hunter2", "[redacted]"},
		{"in a struct", struct{ Key Secret }{"hunter2"}, "hunter2", "[redacted]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := prints(t, tt.v)
			if strings.Contains(got, tt.hide) || strings.Contains(got, fmt.Sprintf("%x", tt.hide)) {
				t.Errorf("printed: %s", got)
			}
			if !strings.Contains(got, tt.show) {
				t.Errorf("not told what is there: %s", got)
			}
		})
	}
	if got := Secret("hunter2").Reveal(); got != "hunter2" {
		t.Errorf("revealed %q", got)
	}
	if got := fmt.Sprint(Secret("")); strings.Contains(got, "redacted") {
		t.Errorf("empty ones print as %q", got)
	}
}

func TestLogIsNeverNil(t *testing.T) {
	Env{}.Log().Info("nothing")
	logger := zap.NewExample()
	if (Env{Logger: logger}).Log() != logger {
		t.Error("another logger")
	}
}
