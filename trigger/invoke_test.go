package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestHandlerErrorsDoNotShowSecretsOfURLs: the runtime logs a handler's error and
// stores it, and errors of net/http hold the whole URL.
func TestHandlerErrorsDoNotShowSecretsOfURLs(t *testing.T) {
	const canary = "CANARYsecret"
	request := &url.Error{Op: "Post", URL: "https://user:" + canary + "@hooks.example/a?token=" + canary, Err: context.DeadlineExceeded}
	first, second := Change{seq: 1}, Change{seq: 2}
	for name, handler := range map[string]Handler{
		"error":          func(context.Context, Batch) error { return fmt.Errorf("notify: %w", request) },
		"partial":        func(context.Context, Batch) error { return Failed(request, second) },
		"skip":           func(context.Context, Batch) error { return Skip(Failed(request, second)) },
		"panic":          func(context.Context, Batch) error { panic(request) },
		"panic with URL": func(context.Context, Batch) error { panic("cannot reach " + request.URL) },
	} {
		t.Run(name, func(t *testing.T) {
			err := recoverPanic(t.Context(), handler, Batch{Changes: []Change{first, second}})
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), canary) {
				t.Errorf("error is %v", err)
			}
			failed, final := judgeBatch([]Change{first, second}, err)
			partial := name == "partial" || name == "skip"
			if len(failed) != 1 && partial || len(failed) != 2 && !partial || final != (name == "skip") {
				t.Errorf("verdict: %v failed, final %v", failed, final)
			}
			if name != "panic with URL" && !errors.Is(err, context.DeadlineExceeded) {
				t.Error("the cause is lost")
			}
		})
	}
}
