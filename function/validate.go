package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// shortestLease bounds the lease intervals from below: under it, a pause of
// the garbage collector or one slow request costs the lease.
const shortestLease = interval(100 * time.Millisecond)

// validate refuses settings that are well-formed and cannot work.
func (s *settings) validate() error {
	var errs []error
	if s.App.StopGrace <= 0 {
		errs = append(errs, fmt.Errorf("HALLEY_STOP_GRACE=%v: must be above 0", s.App.StopGrace))
	}
	for _, f := range s.Functions {
		errs = append(errs, f.complete(), f.intervals(), f.feed(), f.policy())
	}
	return errors.Join(append(errs, s.separate(), s.separateLetters())...)
}

// setting names a setting of the function as the environment has it: its own
// name where that is set, else the app's.
func (f *functionSettings) setting(name string) string {
	own := ownPrefix(f.Entry)
	if source(name, []string{own}) != "default" {
		return own + "_" + name
	}
	return prefix + "_" + name
}

// complete refuses a function that does not know what to read.
func (f *functionSettings) complete() error {
	var errs []error
	required := func(name, value, what string) {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is not set: name the %s (for this function alone: %s%s)",
				f.setting(name), what, f.Prefix(), name))
		}
	}
	required("DATABASE_NAME", f.DatabaseName, "database of the monitored container")
	required("CONTAINER_NAME", f.ContainerName, "container whose changes "+f.Name+" handles")
	required("CONNECTION", string(f.Connection), "connection of the account")
	required("LEASE_CONTAINER_NAME", f.LeaseContainerName, "container of the leases")
	return errors.Join(errs...)
}

// intervals refuses intervals that lose leases or never poll.
func (f *functionSettings) intervals() error {
	var errs []error
	refuse := func(name string, d interval, why string) {
		errs = append(errs, fmt.Errorf("%s=%v: %s", f.setting(name), d, why))
	}
	if f.FeedPollDelay <= 0 {
		refuse("FEED_POLL_DELAY", f.FeedPollDelay, "must be above 0")
	}
	tooShort := fmt.Sprintf("must be at least %v (a plain number counts milliseconds; seconds are written %q)", shortestLease, "60s")
	for _, lease := range []struct {
		name string
		d    interval
	}{
		{"LEASE_ACQUIRE_INTERVAL", f.LeaseAcquireInterval},
		{"LEASE_EXPIRATION_INTERVAL", f.LeaseExpirationInterval},
		{"LEASE_RENEW_INTERVAL", f.LeaseRenewInterval},
	} {
		if lease.d < shortestLease {
			refuse(lease.name, lease.d, tooShort)
		}
	}
	if f.LeaseRenewInterval >= f.LeaseExpirationInterval/2 {
		refuse("LEASE_RENEW_INTERVAL", f.LeaseRenewInterval, fmt.Sprintf(
			"must be less than half of %s=%v, or one lost renewal loses the lease", f.setting("LEASE_EXPIRATION_INTERVAL"), f.LeaseExpirationInterval))
	}
	if f.LeaseAcquireInterval >= f.LeaseExpirationInterval {
		refuse("LEASE_ACQUIRE_INTERVAL", f.LeaseAcquireInterval, fmt.Sprintf(
			"must be less than %s=%v", f.setting("LEASE_EXPIRATION_INTERVAL"), f.LeaseExpirationInterval))
	}
	return errors.Join(errs...)
}

// feed refuses ways to read the feed that exclude each other.
func (f *functionSettings) feed() error {
	all := cosmos.Mode(f.ChangeFeedMode) == cosmos.AllVersions
	var errs []error
	if strings.ContainsAny(f.LeaseContainerPrefix, `/\?#`) {
		errs = append(errs, fmt.Errorf(`%s=%q: it begins the ids of leases, which cannot hold / \ ? #`,
			f.setting("LEASE_CONTAINER_PREFIX"), f.LeaseContainerPrefix))
	}
	if all && f.StartFrom.Start != trigger.FromNow() {
		errs = append(errs, fmt.Errorf("%s=%s: all versions begin now: remove it, or set %s=latest-version",
			f.setting("START_FROM"), f.StartFrom, f.setting("CHANGE_FEED_MODE")))
	}
	if all && f.SoftDeleteProperty != "" {
		errs = append(errs, fmt.Errorf("%s=%s: all versions show deletes as they are: remove it, or set %s=latest-version",
			f.setting("SOFT_DELETE_PROPERTY"), f.SoftDeleteProperty, f.setting("CHANGE_FEED_MODE")))
	}
	if f.MaxLeases > 0 && f.MinLeases > f.MaxLeases {
		errs = append(errs, fmt.Errorf("%s=%d: must not be more than %s=%d",
			f.setting("MIN_LEASES"), f.MinLeases, f.setting("MAX_LEASES"), f.MaxLeases))
	}
	return errors.Join(errs...)
}

// durable refuses what needs a process that somebody starts once: those of a
// host come and go, and each would discard the progress of the others.
func (s *settings) durable(host string) error {
	var errs []error
	for _, f := range s.Functions {
		if f.ResetLeases {
			errs = append(errs, fmt.Errorf("%s=true cannot work under %s, which starts processes as it likes: each would begin anew; remove it, and start halley run with it once",
				f.setting("RESET_LEASES"), host))
		}
	}
	return errors.Join(errs...)
}

// warnOfDisks tells of dead letters on a disk that may go away with the
// instance, unless it is a mounted share.
func (s *settings) warnOfDisks(host string, log *zap.Logger) {
	for _, f := range s.Functions {
		if f.DeadLetters.kind == lettersDirectory {
			log.Warn("dead letters go to a disk of the instance: if it is not a mounted share, they are lost with it; set "+
				f.setting("DEAD_LETTERS")+"=container", zap.String("function", f.Name), zap.String("host", host), zap.String("directory", f.DeadLetters.name))
		}
	}
}

// place is where a container is.
type place struct {
	connection          connectionName
	database, container string
}

func (f *functionSettings) monitors() place {
	return place{f.Connection, f.DatabaseName, f.ContainerName}
}

// separate refuses functions that would share leases, and a function that
// would monitor the leases themselves, where every checkpoint is a change.
func (s *settings) separate() error {
	type leases struct{ monitored, at, prefix any }
	taken := map[leases]string{}
	var errs []error
	for _, f := range s.Functions {
		monitored := f.monitors()
		at := place{f.LeaseConnection, f.LeaseDatabaseName, f.LeaseContainerName}
		if monitored == at && f.ContainerName != "" {
			errs = append(errs, fmt.Errorf("%s=%s is also the monitored container of %s: keep leases in a container of their own",
				f.setting("LEASE_CONTAINER_NAME"), f.LeaseContainerName, f.Name))
		}
		key := leases{monitored, at, f.LeaseContainerPrefix}
		if other, ok := taken[key]; ok {
			errs = append(errs, fmt.Errorf("%s and %s would share leases under the prefix %q: set %sLEASE_CONTAINER_PREFIX to a name of its own",
				other, f.Name, f.LeaseContainerPrefix, f.Prefix()))
		}
		taken[key] = f.Name
	}
	return errors.Join(errs...)
}
