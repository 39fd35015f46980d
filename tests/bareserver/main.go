// Command bareserver answers every request on the port of the Functions host: the
// least that a custom handler with net/http takes to start.
package main

import (
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	address := net.JoinHostPort("127.0.0.1", os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT"))
	log.Fatal(http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}"))
	})))
}
