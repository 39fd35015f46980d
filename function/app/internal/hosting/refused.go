package hosting

import (
	"fmt"
	"slices"
	"strings"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/trigger"
)

// nameConnections adds to the error of a run the connections whose accounts refuse their
// credential, and the fix.
func nameConnections(err error, functions []settings.Function, accounts account.Clients) error {
	refused := refusedAccounts(err)
	var names []string
	for _, f := range functions {
		for _, name := range []settings.ConnectionName{f.Connection, f.LeaseConnection} {
			client, openErr := accounts.Client(f, name)
			if openErr == nil && slices.Contains(refused, client.Endpoint()) {
				names = append(names, fmt.Sprintf("%s (%s)", name, client.Endpoint()))
			}
		}
	}
	if names == nil {
		return err
	}
	slices.Sort(names)
	return fmt.Errorf("%w\nconnection refused by its account: %s: put the new key into the setting of the connection, or grant the identity access, and start the process again",
		err, strings.Join(slices.Compact(names), ", "))
}

// refusedAccounts returns the endpoints of the accounts that refuse their credential.
func refusedAccounts(err error) (endpoints []string) {
	if refused, ok := err.(*trigger.RefusedError); ok {
		return []string{refused.Account}
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		return refusedAccounts(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range wrapper.Unwrap() {
			endpoints = append(endpoints, refusedAccounts(e)...)
		}
	}
	return endpoints
}
