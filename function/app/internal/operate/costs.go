package operate

import (
	"slices"
	"time"

	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/units"
)

// Forecast is the cost of a function in a month, see [LagReport.AddForecast].
type Forecast struct {
	Idle units.Month  `json:"idle"`           // with nothing to do, and hosts that run all the time
	Load *units.Month `json:"load,omitempty"` // with the load of the last hour; nil if no host tells of it
}

// String returns the forecast in words.
func (f *Forecast) String() string {
	idle := f.Idle.String() + " idle, with hosts that run all the time"
	if f.Load == nil {
		return idle
	}
	return f.Load.String() + " with the load of the last hour; " + idle
}

// measuredUnits sums the request units that the hosts of a function have measured. Each host tells
// them in all leases that it writes: the newest counts, if it is younger than an hour.
func measuredUnits(leases []trigger.Lag, now time.Time) (sum units.Hourly, hosts int, leaseWrite float64) {
	var newest []*trigger.Lag // of each host
	for i := range leases {
		l := &leases[i]
		if l.Units == nil || now.Sub(l.Renewed) >= time.Hour {
			continue
		}
		known := slices.IndexFunc(newest, func(n *trigger.Lag) bool { return n.Units.ID == l.Units.ID })
		switch {
		case known < 0:
			newest = append(newest, l)
		case l.Renewed.After(newest[known].Renewed):
			newest[known] = l
		}
	}
	for _, l := range newest {
		sum = sum.Add(l.Units.Hourly)
		leaseWrite = max(leaseWrite, l.Units.LeaseWrite)
	}
	return sum, len(newest), leaseWrite
}

// IdleUnits returns the request units of a function without changes, if a number of hosts run all the
// time. leaseWrite is the measured charge of a lease write, 0 if there is none.
func IdleUnits(f settings.Function, ranges, hosts int, leaseWrite float64) units.Hourly {
	return units.Idle{
		Ranges: ranges, Hosts: hosts, LeaseWrite: leaseWrite,
		PollDelay: time.Duration(f.FeedPollDelay), RenewInterval: time.Duration(f.LeaseRenewInterval), AcquireInterval: time.Duration(f.LeaseAcquireInterval),
	}.Hourly()
}
