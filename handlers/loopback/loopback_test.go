package loopback

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestCloseEndsRunningRequests(t *testing.T) {
	s, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{})
	s.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		io.WriteString(w, "stopped")
	}))
	answers := make(chan string, 1)
	go func() {
		response, err := http.Get(s.Origin())
		if err != nil {
			answers <- err.Error()
			return
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		answers <- string(text)
	}()
	<-arrived
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := <-answers; got != "stopped" {
		t.Errorf("the running request got %q", got)
	}
	if _, err := http.Get(s.Origin()); err == nil {
		t.Error("it serves after Close")
	}
}

func TestOtherAddressesAreRefused(t *testing.T) {
	if _, err := Listen(":0"); err == nil || !strings.Contains(err.Error(), ":0 is not a loopback address") {
		t.Errorf("error is %v", err)
	}
}
