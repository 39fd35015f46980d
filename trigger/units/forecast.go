package units

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Charges of requests, as the embedded account models them after the recorded answers of a
// hosted account: of a read of the feed that finds nothing, of a write of a lease of a kilobyte,
// and of a list of leases.
const (
	pollCharge     = 1.0
	writeCharge    = 16.0
	listCharge     = 2.82
	listItemCharge = 0.03
)

// Idle is a function whose hosts run all the time and that has nothing to do.
type Idle struct {
	Ranges, Hosts                             int
	PollDelay, RenewInterval, AcquireInterval time.Duration
	LeaseWrite                                float64 // measured charge of a lease write, 0 if none was
}

// Hourly returns the request units that it costs: polls and renewals of each range, and the lists
// of each host.
func (i Idle) Hourly() Hourly {
	ranges, perHour := float64(i.Ranges), func(interval time.Duration) float64 { return float64(time.Hour) / float64(interval) }
	return Hourly{
		Polls:       ranges * perHour(i.PollDelay) * pollCharge,
		LeaseWrites: ranges * perHour(i.RenewInterval) * cmp.Or(i.LeaseWrite, writeCharge),
		LeaseReads:  float64(i.Hosts) * perHour(i.AcquireInterval) * (listCharge + listItemCharge*ranges),
	}
}

// monthHours is a month as Azure's prices count it.
const monthHours = 730

// Prices are those of an account, in any currency: for 100 request units a second during an
// hour, provisioned or with autoscale, and for a million request units of a serverless account. 0
// is not known. https://azure.microsoft.com/pricing/details/cosmos-db/autoscale-provisioned/
type Prices struct {
	Provisioned float64 `json:"provisioned,omitempty"`
	Autoscale   float64 `json:"autoscale,omitempty"`
	Serverless  float64 `json:"serverless,omitempty"`
}

// ParsePrices reads prices such as "provisioned=0.008,autoscale=0.012,serverless=0.25".
func ParsePrices(text string) (p Prices, err error) {
	known := map[string]*float64{"provisioned": &p.Provisioned, "autoscale": &p.Autoscale, "serverless": &p.Serverless}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		price := known[name]
		if price == nil {
			return Prices{}, fmt.Errorf("%q: give prices as in provisioned=0.008,autoscale=0.012,serverless=0.25", part)
		}
		if *price, err = strconv.ParseFloat(value, 64); err != nil || !(*price > 0 && *price < 1e6) {
			return Prices{}, fmt.Errorf("%q: a price is a number above 0, such as 0.008", part)
		}
	}
	return p, nil
}

// String returns the text that ParsePrices reads, "" if no price is known.
func (p Prices) String() string {
	return p.list(",", func(name string, price float64) string { return name + "=" + strconv.FormatFloat(price, 'f', -1, 64) })
}

// list returns the texts of those that are known.
func (p Prices) list(separator string, text func(name string, value float64) string) string {
	var known []string
	for _, c := range []struct {
		name  string
		value float64
	}{{"provisioned", p.Provisioned}, {"autoscale", p.Autoscale}, {"serverless", p.Serverless}} {
		if c.value > 0 {
			known = append(known, text(c.name, c.value))
		}
	}
	return strings.Join(known, separator)
}

// Month is the cost of a function in a month: request units, and money by each known price.
// Provisioned throughput and autoscale count the share of the throughput that the units use on
// average: throughput that nobody uses is paid for, too.
type Month struct {
	RequestUnits float64 `json:"requestUnits"`
	Prices
}

// Month returns the cost of so many request units an hour.
func (p Prices) Month(h Hourly) Month {
	millions := h.Total() * monthHours / 1e6
	throughput := h.Total() / time.Hour.Seconds() / 100 * monthHours // in hours of 100 units a second
	return Month{millions * 1e6, Prices{p.Provisioned * throughput, p.Autoscale * throughput, p.Serverless * millions}}
}

// String returns the month in words, such as "19.9 million request units (serverless 4.97)".
func (m Month) String() string {
	text := fmt.Sprintf("%.1f million request units", m.RequestUnits/1e6)
	if money := m.list(", ", func(name string, cost float64) string { return fmt.Sprintf("%s %.2f", name, cost) }); money != "" {
		text += " (" + money + ")"
	}
	return text
}
