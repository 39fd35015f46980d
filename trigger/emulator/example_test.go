package emulator_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"halley/trigger/emulator"
)

// An account is a transport: hand it to a client as azcore's
// ClientOptions.Transport, and the client works in process.
func Example() {
	account, err := emulator.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer account.Close()
	if err := account.CreateContainer("game", "results", "/player", 2); err != nil {
		fmt.Println(err)
		return
	}
	children, err := account.Split("game", "results", "0")
	fmt.Println(children, err)
	// Output: [2 3] <nil>
}

// A fault makes the account fail as the service could.
func ExampleAccount_Inject() {
	account, err := emulator.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer account.Close()
	remove := account.Inject(emulator.Fault{Resource: "dbs", Status: 429, SubStatus: 3200, RetryAfter: 20 * time.Millisecond, Count: 1})
	defer remove()

	req, err := http.NewRequest(http.MethodGet, account.Endpoint()+"dbs", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := account.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, resp.Header.Get("x-ms-retry-after-ms"))
	// Output: 429 20
}

// A served account takes connections until its context ends.
func ExampleAccount_Serve() {
	account, err := emulator.New(&emulator.Options{RU: 4000})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer account.Close()
	ctx, stop := context.WithCancel(context.Background())
	err = account.Serve(ctx, emulator.ServeOptions{Addr: "127.0.0.1:0", Ready: func(endpoint string) { stop() }})
	fmt.Println(err)
	// Output: <nil>
}

// The identity of an app may do what its roles allow, and nothing else.
func ExampleAccount_AssignRoles() {
	account, err := emulator.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer account.Close()
	err = account.AssignRoles(emulator.RoleAssignment{
		Principal: "00000000-0000-0000-0000-000000000001", Scope: "/dbs/games/colls/leases",
		DataActions: []string{"Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/executeQuery"},
	})
	if err != nil {
		log.Fatal(err)
	}
}
