package emulator

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// offer is the throughput of a database or container.
type offer struct {
	RID       string          `json:"rid"`
	Resource  string          `json:"resource"` // self link of the resource that it pays for
	Owner     string          `json:"owner"`    // its resource id
	ETag      string          `json:"etag"`
	Modified  int64           `json:"modified"`
	Manual    int             `json:"manual,omitempty"` // RU/s
	Autopilot json.RawMessage `json:"autopilot,omitempty"`
	Highest   int             `json:"highest,omitempty"` // RU/s ever provisioned
}

// defaultThroughput is the throughput of a container, in RU/s, if its creator asks
// for none.
const defaultThroughput = 400

// throughput reads the headers of a create request; nil if there are none.
func (c *call) throughput() (*offer, error) {
	if autopilot := c.header.Get("X-Ms-Cosmos-Offer-Autopilot-Settings"); autopilot != "" {
		o := &offer{Autopilot: json.RawMessage(autopilot)}
		if err := checkAutopilot(o.Autopilot); err != nil {
			return nil, err
		}
		if o.units() < 1000 {
			return nil, badRequest("x-ms-cosmos-offer-autopilot-settings must be JSON with a maxThroughput of at least 1000, not %q.", autopilot)
		}
		return o, nil
	}
	text := c.header.Get("X-Ms-Offer-Throughput")
	if text == "" {
		return nil, nil
	}
	units, err := strconv.Atoi(text)
	if err != nil {
		return nil, badRequest("x-ms-offer-throughput must be a number of RU/s, not %q.", text)
	}
	return &offer{Manual: units}, checkThroughput(units)
}

// maxAutopilot bounds the settings of autoscale, which are kept, in bytes.
const maxAutopilot = 1 << 10

func checkAutopilot(settings json.RawMessage) error {
	if len(settings) > maxAutopilot {
		return badRequest("The autopilot settings have %d bytes, at most %d are allowed.", len(settings), maxAutopilot)
	}
	return nil
}

func checkThroughput(units int) error {
	if units < defaultThroughput || units > maxRanges*unitsPerRange {
		return badRequest("The throughput must be %d to %d RU/s, not %d.", defaultThroughput, maxRanges*unitsPerRange, units)
	}
	return nil
}

// units is the offer's (greatest) throughput in RU/s; 0 when it is malformed.
func (o *offer) units() int {
	if o.Autopilot == nil {
		return o.Manual
	}
	var settings struct {
		MaxThroughput int `json:"maxThroughput"`
	}
	if json.Unmarshal(o.Autopilot, &settings) != nil || checkThroughput(settings.MaxThroughput) != nil {
		return 0
	}
	return settings.MaxThroughput
}

// place ties a new offer to the resource that it pays for.
func (o *offer) place(owner, resource string, number uint32, now time.Time) {
	if o == nil {
		return
	}
	o.RID, o.Owner, o.Resource = fmt.Sprintf("%04x", number&0xffff), owner, resource
	o.Modified = now.Unix()
	o.ETag = formatETag(number, math.MaxUint32, 0)
	o.Highest = o.units()
}

// body is the offer as clients read it.
func (o *offer) body() []byte {
	content := map[string]any{
		"offerThroughput": o.Manual, "offerIsRUPerMinuteThroughputEnabled": false,
		"offerMinimumThroughputParameters": map[string]any{"maxThroughputEverProvisioned": o.Highest, "maxConsumedStorageEverInKB": 0},
	}
	if o.Autopilot != nil {
		content["offerThroughput"] = o.units() / 10 // an idle resource is scaled down to a tenth
		content["offerAutopilotSettings"] = o.Autopilot
	}
	body, _ := json.Marshal(map[string]any{ // its parts came from JSON
		"id": o.RID, "_rid": o.RID, "_self": "offers/" + o.RID + "/", "_etag": o.ETag, "_ts": o.Modified,
		"resource": o.Resource, "offerResourceId": o.Owner, "offerType": "Invalid", "offerVersion": "V2", "content": content,
	})
	return body
}

func (c *call) dispatchOffer() (*response, error) {
	switch {
	case c.target.id == "" && c.method == http.MethodPost && c.isQuery():
		return c.queryOffers()
	case c.target.id == "" && c.method == http.MethodGet:
		return list("", "Offers", c.offerBodies()), nil
	case c.target.id != "" && c.method == http.MethodGet:
		return c.onOffer(func(o *offer) error { return nil })
	case c.target.id != "" && c.method == http.MethodPut:
		return c.replaceOffer()
	}
	return nil, c.methodNotAllowed()
}

// eachOffer calls fn with every offer and the function that saves it. It stops if
// fn returns false. The caller holds the account's mu.
func (a *catalog) eachOffer(fn func(o *offer, save func() uint64) bool) {
	for _, d := range a.databases {
		if d.Throughput != nil && !fn(d.Throughput, func() uint64 { return a.saveDatabase(d) }) {
			return
		}
		for _, o := range d.containers {
			if !o.withOffer(func(offer *offer) bool { return fn(offer, func() uint64 { return a.saveWithCounters(o) }) }) {
				return
			}
		}
	}
}

// withOffer returns fn of the container's offer, true if it has none.
func (o *container) withOffer(fn func(*offer) bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Throughput == nil || fn(o.Throughput)
}

// offerBodies are all offers, in order of their ids.
func (c *call) offerBodies() [][]byte {
	a := c.catalog
	a.mu.RLock()
	defer a.mu.RUnlock()
	c.ticket = a.ticket
	all := map[string][]byte{}
	a.eachOffer(func(o *offer, _ func() uint64) bool {
		all[o.RID] = o.body()
		return true
	})
	bodies := [][]byte{}
	for _, rid := range slices.Sorted(maps.Keys(all)) {
		bodies = append(bodies, all[rid])
	}
	return bodies
}

// onOffer answers with the offer of the path after fn, which may change it.
func (c *call) onOffer(fn func(*offer) error) (*response, error) {
	a := c.catalog
	a.mu.Lock()
	defer a.mu.Unlock()
	r, err := (*response)(nil), error(notFound("offer"))
	a.eachOffer(func(o *offer, save func() uint64) bool {
		if o.RID != c.target.id {
			return true
		}
		oldETag := o.ETag
		if err = fn(o); err == nil {
			r = reply(http.StatusOK, o.body()).etag(o.ETag).charge(masterUnits)
		}
		if o.ETag != oldETag {
			a.master.Add(1)
			a.ticket = save()
		}
		return false
	})
	c.ticket = a.ticket
	return r, err
}

// migratedOffer returns the offer that a request migrates to autoscale or to manual
// throughput, nil if it does neither. The throughputs are those of
// https://learn.microsoft.com/azure/cosmos-db/how-to-provision-autoscale-throughput
// and its FAQ: autoscale begins at the throughput rounded up to 1000 RU/s, and manual
// throughput at the maximum of autoscale.
func (c *call) migratedOffer(o *offer) *offer {
	if o.Autopilot == nil && strings.EqualFold(c.header.Get("X-Ms-Cosmos-Migrate-Offer-To-Autopilot"), "true") {
		return &offer{Autopilot: encode(map[string]int{"maxThroughput": (o.Manual + 999) / 1000 * 1000})}
	}
	if o.Autopilot != nil && strings.EqualFold(c.header.Get("X-Ms-Cosmos-Migrate-Offer-To-Manual-Throughput"), "true") {
		return &offer{Manual: o.units()}
	}
	return nil
}

// migrates reports whether a request migrates an offer.
func (c *call) migrates() bool {
	return c.header.Get("X-Ms-Cosmos-Migrate-Offer-To-Autopilot") != "" || c.header.Get("X-Ms-Cosmos-Migrate-Offer-To-Manual-Throughput") != ""
}

// replaceOffer changes a throughput. The number of ranges stays the same: ranges
// split only when [Account.Split] is called.
func (c *call) replaceOffer() (*response, error) {
	var wanted struct {
		Content struct {
			Throughput int             `json:"offerThroughput"`
			Autopilot  json.RawMessage `json:"offerAutopilotSettings"`
		} `json:"content"`
	}
	if err := json.Unmarshal(c.body, &wanted); err != nil {
		return nil, badRequest("The offer is not a JSON object: %v.", err)
	}
	next := offer{Manual: wanted.Content.Throughput, Autopilot: wanted.Content.Autopilot}
	if err := checkAutopilot(next.Autopilot); err != nil {
		return nil, err
	}
	if err := checkThroughput(next.units()); err != nil && !c.migrates() { // the body is then the offer as it was read
		return nil, err
	}
	return c.onOffer(func(o *offer) error {
		if err := c.checkMatch(o.ETag); err != nil {
			return err
		}
		next := next
		if c.migrates() {
			migrated := c.migratedOffer(o)
			if migrated == nil {
				return badRequest("The offer of %s cannot be migrated to the kind that it already has.", o.Resource)
			}
			next = *migrated
		}
		o.Manual, o.Autopilot = next.Manual, next.Autopilot
		if o.Autopilot != nil {
			o.Manual = 0
		}
		o.Highest = max(o.Highest, o.units())
		c.catalog.writes++
		o.ETag, o.Modified = formatETag(c.catalog.seed, math.MaxUint32, c.catalog.writes), c.now.Unix()
		return nil
	})
}
