package emulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// checkServing fails if the regions of the account cannot have addresses of their own.
func (a *Account) checkServing(o ServeOptions) error {
	if a.regions != nil && o.Advertise != "" {
		return errors.New("an account with several regions has one address for each: leave out the URL to advertise")
	}
	return nil
}

// listenRegions returns a listener for each region of an account that has several, at the
// ports that follow that of the account. If the system has chosen this one, as address asks
// for, it chooses theirs, too.
func (a *Account) listenRegions(ctx context.Context, account net.Listener, address string) (listeners []net.Listener, err error) {
	if a.regions == nil {
		return nil, nil
	}
	main := account.Addr().(*net.TCPAddr)
	_, wanted, _ := net.SplitHostPort(address)
	for i, name := range a.regions.names {
		port := main.Port + 1 + i
		if wanted == "0" {
			port = 0
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(main.IP.String(), strconv.Itoa(port)))
		if err != nil {
			err = fmt.Errorf("region %q, which has the %d. port after that of the account: %w", name, i+1, err)
			return nil, errors.Join(err, closeAll(listeners))
		}
		listeners = append(listeners, listener)
	}
	return listeners, nil
}

func closeAll(listeners []net.Listener) (err error) {
	for _, listener := range listeners {
		err = errors.Join(err, listener.Close())
	}
	return err
}

// ports are those of the listeners.
func ports(listeners []net.Listener) (list []int) {
	for _, listener := range listeners {
		list = append(list, listener.Addr().(*net.TCPAddr).Port)
	}
	return list
}

// localPort is the port at which a request has arrived, 0 if it is not known.
func localPort(req *http.Request) int {
	if address, ok := req.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return address.Port
	}
	return 0
}

// acceptAll accepts connections of all listeners until ctx ends or one of them fails.
func acceptAll(ctx context.Context, listeners []net.Listener, accept func(context.Context, net.Listener) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(listeners))
	for _, listener := range listeners {
		go func() {
			defer cancel()
			ended <- accept(ctx, listener)
		}()
	}
	var err error
	for range listeners {
		err = errors.Join(err, <-ended)
	}
	return err
}
