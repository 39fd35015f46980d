package operate

import (
	"time"

	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/units"
)

// Forecast is what a function costs in a month.
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
	newest := map[string]trigger.Lag{}
	for _, l := range leases {
		if u := l.Units; u != nil && now.Sub(l.Renewed) < time.Hour && l.Renewed.After(newest[u.ID].Renewed) {
			newest[u.ID] = l
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

// forecast adds the costs of a month.
func (l *FunctionLag) forecast(f settings.Function, prices units.Prices, now time.Time) {
	_, hosts, leaseWrite := measuredUnits(l.Leases, now)
	l.Forecast = &Forecast{Idle: prices.Month(IdleUnits(f, len(l.Leases), max(hosts, 1), leaseWrite))}
	if l.Units != nil {
		load := prices.Month(*l.Units)
		l.Forecast.Load = &load
	}
}

// AddForecast adds to each function of a report what it costs in a month.
func (r *LagReport) AddForecast(s *settings.Settings) {
	for i := range r.Functions {
		if len(r.Functions[i].Leases) == 0 {
			continue
		}
		r.Functions[i].forecast(s.Functions[i], units.Prices(s.App.Prices), r.Time)
	}
}
