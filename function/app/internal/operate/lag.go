// Package operate has what operators do, for the commands and the page: lag, selections of
// dead letters, replays, and copies and plans of leases. It knows no flag and no terminal.
package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/stall"
	"halley/trigger/units"
)

// LagReport is the result of one look.
type LagReport struct {
	Time      time.Time     `json:"time"`
	Functions []FunctionLag `json:"functions"`
	LagTotal
}

// FunctionLag is the part of one function.
type FunctionLag struct {
	Name   string        `json:"name"`
	Leases []trigger.Lag `json:"leases"`
	LagTotal
	Problem string `json:"problem,omitempty"` // the reason if there are no leases to show
	Warning string `json:"warning,omitempty"` // see [SharedText]

	Units    *units.Hourly `json:"units,omitempty"`    // that the hosts say it costs; nil if none does
	Forecast *Forecast     `json:"forecast,omitempty"` // see [LagReport.AddForecast]

	Unread     bool `json:"-"` // the leases could not be read
	stallAfter time.Duration
}

// LagTotal sums over leases: the number of changes, and the age of the oldest. If the
// lag of some lease is not known, they are lower bounds.
type LagTotal struct {
	Changes      int64   `json:"changes"`
	Transactions int64   `json:"transactions"` // as KEDA's scaler counts
	Exact        bool    `json:"exact"`
	Known        bool    `json:"known"`
	Seconds      float64 `json:"seconds"`
}

func (t *LagTotal) add(other LagTotal) {
	t.Changes += other.Changes
	t.Transactions += other.Transactions
	t.Exact = t.Exact && other.Exact
	t.Known = t.Known && other.Known
	t.Seconds = max(t.Seconds, other.Seconds)
}

// nothingBehind is the total of no leases.
var nothingBehind = LagTotal{Exact: true, Known: true}

// MarshalJSON implements [json.Marshaler]: what is not known is null.
func (l FunctionLag) MarshalJSON() ([]byte, error) {
	type fields FunctionLag
	return json.Marshal(struct {
		fields
		Changes *int64   `json:"changes"`
		Seconds *float64 `json:"seconds"`
	}{fields(l), l.orNull(&l.Changes), orNull(l.Known, &l.Seconds)})
}

// MarshalJSON implements [json.Marshaler]: what is not known is null.
func (r LagReport) MarshalJSON() ([]byte, error) {
	type fields LagReport
	return json.Marshal(struct {
		fields
		Changes *int64   `json:"changes"`
		Seconds *float64 `json:"seconds"`
	}{fields(r), r.orNull(&r.Changes), orNull(r.Known, &r.Seconds)})
}

// orNull returns a number of changes, or nil if nothing is known about it.
func (t LagTotal) orNull(changes *int64) *int64 { return orNull(t.Known || t.Changes > 0, changes) }

func orNull[T any](known bool, v *T) *T {
	if !known {
		return nil
	}
	return v
}

// Look counts the lag of all functions for a person. It returns an error if the lag is not
// known completely, or if a range is stalled for longer than its function allows.
func Look(ctx context.Context, s *settings.Settings, clients account.Clients) (LagReport, error) {
	r := LagReport{Time: time.Now().UTC(), LagTotal: nothingBehind}
	unknown, stalled := 0, 0
	for i, l := range lagsOf(ctx, s.Functions, clients, trigger.CountLag) {
		if app := s.Functions[i].HostOptions(&s.App).AppName; app != "" {
			l.warnOfOthers(app)
		}
		if l.Problem != "" {
			unknown++
		}
		for _, lease := range l.Leases {
			if !lease.Known {
				unknown++
			}
			if l.isStalled(lease, r.Time) {
				stalled++
			}
		}
		r.add(l.LagTotal)
		r.Functions = append(r.Functions, l)
	}
	switch {
	case unknown > 0:
		return r, errors.New("the lag is not completely known: see PROBLEM")
	case stalled > 0:
		return r, fmt.Errorf("%d ranges are stalled: see PROBLEM", stalled)
	}
	return r, nil
}

// isStalled reports whether a range makes no progress for longer than its function
// allows, and not because of a limit.
func (l *FunctionLag) isStalled(lease trigger.Lag, now time.Time) bool {
	return slices.ContainsFunc(lease.Stalls, func(s stall.Stall) bool { return !s.Kind.IsLimit() && now.Sub(s.Since) >= l.stallAfter })
}

// EstimateLags estimates the lag of each function. The Problem of one says why it could not.
func EstimateLags(ctx context.Context, functions []settings.Function, clients account.Clients) []FunctionLag {
	return lagsOf(ctx, functions, clients, trigger.EstimateLag)
}

// estimate is [trigger.EstimateLag] or [trigger.CountLag].
type estimate func(context.Context, *cosmos.Container, trigger.FeedSource) ([]trigger.Lag, error)

// lagsOf looks at all functions at the same time, so that the account of one does not delay what
// the leases of the others tell.
func lagsOf(ctx context.Context, functions []settings.Function, clients account.Clients, look estimate) []FunctionLag {
	lags, opened, errs := make([]FunctionLag, len(functions)), make([]account.Containers, len(functions)), make([]error, len(functions))
	for i, f := range functions {
		opened[i], errs[i] = clients.Open(f)
	}
	var working sync.WaitGroup
	for i, f := range functions {
		working.Go(func() {
			var leases []trigger.Lag
			err := errs[i]
			if err == nil {
				err = clients.Reach(ctx, f)
			}
			if err == nil {
				leases, err = look(ctx, opened[i].Leases, f.TriggerFunction(opened[i].Monitored).FeedSource)
			}
			lags[i] = sumOf(f, leases, err)
		})
	}
	working.Wait()
	return lags
}

// sumOf returns the lag of a function with that of its leases. err says why there are none.
func sumOf(f settings.Function, leases []trigger.Lag, err error) FunctionLag {
	l := FunctionLag{Name: f.Name, Leases: append([]trigger.Lag{}, leases...), LagTotal: nothingBehind, stallAfter: time.Duration(f.StallAfter)}
	switch {
	case err != nil:
		l.Problem, l.Exact, l.Known, l.Unread = err.Error(), false, false, true
	case len(l.Leases) == 0:
		l.Problem, l.Exact, l.Known = "no leases: its hosts never ran, or the leases were deleted", false, false
	}
	if measured, hosts, _ := measuredUnits(l.Leases, time.Now()); hosts > 0 {
		l.Units = &measured
	}
	var holders []string
	for _, lease := range l.Leases {
		if lease.Holder != "" && !slices.Contains(holders, lease.Holder) {
			holders = append(holders, lease.Holder)
		}
		l.add(LagTotal{lease.Changes, lease.Transactions, lease.Exact, lease.Known, lease.Seconds})
	}
	if len(holders) > 1 {
		slices.Sort(holders)
		l.Warning = SharedText(holders)
	}
	return l
}

// warnOfOthers warns of other apps that hold leases of a function of this app, whether or not
// this one holds some.
func (l *FunctionLag) warnOfOthers(app string) {
	var others []string
	for _, lease := range l.Leases {
		if lease.Holder != "" && lease.Holder != app+"/"+l.Name && !slices.Contains(others, lease.Holder) {
			others = append(others, lease.Holder)
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		l.Warning = SharedText(slices.Concat([]string{"this app"}, others))
	}
}

// SharedText warns of apps and functions, as "app/function", that share the leases of one.
func SharedText(holders []string) string {
	return strings.Join(holders, " and ") + " take leases of one prefix, and each handles only a part of the changes: give one of them another HALLEY_LEASE_CONTAINER_PREFIX, or stop it"
}

// Behind is the lag of one lease: ? if it is not known, and an estimate says that it
// counts transactions.
func (t LagTotal) Behind() string {
	switch {
	case !t.Known:
		return "?"
	case t.Exact:
		return fmt.Sprint(t.Changes)
	}
	return fmt.Sprintf("at most %d transactions", t.Changes)
}

// Total is the lag of several leases, of which some may be known.
func (t LagTotal) Total() string {
	if !t.Known && t.Changes > 0 {
		return fmt.Sprintf("at least %d", t.Changes)
	}
	return t.Behind()
}

// Age is the age of the oldest change in seconds, ? if it is not known.
func (t LagTotal) Age() string {
	if !t.Known {
		return "?"
	}
	return fmt.Sprintf("%.0f", t.Seconds)
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

// AddForecast adds the cost of a month to each function of a report.
func (r *LagReport) AddForecast(s *settings.Settings) {
	for i := range r.Functions {
		if len(r.Functions[i].Leases) == 0 {
			continue
		}
		r.Functions[i].forecast(s.Functions[i], units.Prices(s.App.Prices), r.Time)
	}
}
