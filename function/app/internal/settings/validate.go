package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"halley/trigger"
)

// minPageToken is the number of characters that a token has at least.
const minPageToken = 16

// CheckPageToken refuses a token that could be guessed.
func (a *App) CheckPageToken() error {
	if n := len(a.PageToken.Reveal()); n > 0 && n < minPageToken {
		return fmt.Errorf("HALLEY_PAGE_TOKEN has %d characters: give it %d or more, such as those of openssl rand -hex 16", n, minPageToken)
	}
	return nil
}

// validate refuses settings that are well-formed and cannot work.
func (s *Settings) validate() error {
	errs := slices.Clone(s.zeros)
	for _, f := range s.Functions {
		errs = append(errs, f.complete())
		errs = append(errs, f.problems(&s.App)...)
		errs = append(errs, f.storeConnected(), f.retained())
	}
	return joinDistinct(append(errs, s.separate(), s.separateDeadLetters()))
}

// joinDistinct leaves out repeated texts: a setting of the app may be wrong for
// each of its functions.
func joinDistinct(errs []error) error {
	seen := map[string]bool{}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool {
		if err == nil || seen[err.Error()] {
			return true
		}
		seen[err.Error()] = true
		return false
	})...)
}

// complete refuses a function if a name is missing that has no default.
func (f *Function) complete() error {
	var errs []error
	required := func(name, value, what string) {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is not set: name the %s (for this function alone: %s%s)",
				f.Variable(name), what, f.Prefix(), name))
		}
	}
	required("DATABASE_NAME", f.DatabaseName, "database of the monitored container")
	required("CONTAINER_NAME", f.ContainerName, "container whose changes "+f.Name+" handles")
	required("CONNECTION", string(f.Connection), "connection of the account")
	required("LEASE_CONTAINER_NAME", f.LeaseContainerName, "container of the leases")
	return errors.Join(errs...)
}

// Durable refuses settings that need a process which an operator starts once. A
// hosting platform starts processes at any time, and each would reset the progress
// of the others.
func (s *Settings) Durable(host string) error {
	var errs []error
	for _, f := range s.Functions {
		if f.ResetLeases {
			errs = append(errs, fmt.Errorf("%s=true cannot work under %s, which starts processes at any time: each would start from the beginning; remove it, and start the command run with it once",
				f.Variable("RESET_LEASES"), host))
		}
	}
	return errors.Join(errs...)
}

// WarnOfDisks warns of dead letters on a disk that may be deleted with the instance,
// unless it is a mounted share.
func (s *Settings) WarnOfDisks(host string, log *zap.Logger) {
	for _, f := range s.Functions {
		if f.DeadLetters.Row().OnDisk {
			log.Warn("dead letters are on a disk of the instance: if it is not a mounted share, they are lost with it; set "+
				f.Variable("DEAD_LETTERS")+"=container", zap.String("function", f.Name), zap.String("host", host), zap.String("directory", f.DeadLetters.Name))
		}
	}
}

// separate refuses functions that would share leases, and a function that would
// monitor its leases: each checkpoint would be a change.
func (s *Settings) separate() error {
	type leases struct{ monitored, at, prefix any }
	taken := map[leases]string{}
	var errs []error
	for _, f := range s.Functions {
		monitored := f.MonitoredPlace()
		at := f.LeasePlace()
		if monitored == at && f.ContainerName != "" {
			errs = append(errs, fmt.Errorf("%s=%s is also the monitored container of %s: keep leases in a container of their own",
				f.Variable("LEASE_CONTAINER_NAME"), f.LeaseContainerName, f.Name))
		}
		key := leases{monitored, at, cmp.Or(f.LeaseContainerPrefix, trigger.NoLeasePrefix)}
		if other, ok := taken[key]; ok {
			errs = append(errs, fmt.Errorf("%s and %s would share leases under the prefix %q: set %sLEASE_CONTAINER_PREFIX to a name of its own",
				other, f.Name, f.LeaseContainerPrefix, f.Prefix()))
		}
		taken[key] = f.Name
	}
	return errors.Join(errs...)
}
