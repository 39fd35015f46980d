package operate

import (
	"slices"
	"time"

	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/units"
)

// Forecast is what a function costs in a month, see [LagReport.AddForecast].
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

// measuredUnits sums what the hosts of a function say that it costs: each in the leases that it
// wrote, of which the newest counts. What a host wrote an hour ago or earlier does not count.
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

// IdleUnits returns what a function costs that has nothing to do, while a number of hosts run all
// the time. leaseWrite is the measured charge of a lease write, 0 if there is none.
func IdleUnits(f settings.Function, ranges, hosts int, leaseWrite float64) units.Hourly {
	return units.Idle{
		Ranges: ranges, Hosts: hosts, LeaseWrite: leaseWrite,
		PollDelay: time.Duration(f.FeedPollDelay), RenewInterval: time.Duration(f.LeaseRenewInterval), AcquireInterval: time.Duration(f.LeaseAcquireInterval),
	}.Hourly()
}
