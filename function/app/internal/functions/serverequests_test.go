package functions

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"testing"
)

// TestOptionsOfTheServerIsAnsweredLikeUnknownPaths: net/http would answer
// OPTIONS * itself, with an empty 200.
func TestOptionsOfTheServerIsAnsweredLikeUnknownPaths(t *testing.T) {
	for target, status := range map[string]int{"*": http.StatusNotFound, "/unknown": http.StatusNotFound, "/function": http.StatusMethodNotAllowed} {
		h, _ := newHandler((&calls{}).function)
		ctx, stop := context.WithCancel(t.Context())
		client, served := pipe(t, ctx, h)
		go fmt.Fprintf(client, "OPTIONS %s HTTP/1.1\r\nHost: 127.0.0.1:7071\r\n\r\n", target)
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		checkJSON(t, resp)
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("OPTIONS %s: status %d, want %d", target, resp.StatusCode, status)
		}
		client.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
