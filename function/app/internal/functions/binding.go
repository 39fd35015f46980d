package functions

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"halley/function/app/internal/settings"
	"halley/trigger"
)

// triggerBinding is the type of the binding that command import translates to
// settings. Its properties are those of CosmosDBTriggerAttribute
// (azure-webjobs-sdk-extensions), in its version 4, and in the versions before, which
// called a container a collection.
const triggerBinding = "cosmosDBTrigger"

// bindingProperties have a setting of their own. name is that of version 4, before that
// of earlier versions if it is another.
var bindingProperties = []struct {
	name, before, setting string
	translate             func(string) (string, error)
}{
	{"connection", "connectionStringSetting", "CONNECTION", asConnection},
	{"databaseName", "", "DATABASE_NAME", asText},
	{"containerName", "collectionName", "CONTAINER_NAME", asText},
	{"leaseConnection", "leaseConnectionStringSetting", "LEASE_CONNECTION", asConnection},
	{"leaseDatabaseName", "", "LEASE_DATABASE_NAME", asText},
	{"leaseContainerName", "leaseCollectionName", "LEASE_CONTAINER_NAME", asText},
	{"leaseContainerPrefix", "leaseCollectionPrefix", "LEASE_CONTAINER_PREFIX", asText},
	{"feedPollDelay", "", "FEED_POLL_DELAY", asInterval},
	{"leaseAcquireInterval", "", "LEASE_ACQUIRE_INTERVAL", asInterval},
	{"leaseExpirationInterval", "", "LEASE_EXPIRATION_INTERVAL", asInterval},
	{"leaseRenewInterval", "", "LEASE_RENEW_INTERVAL", asInterval},
	{"maxItemsPerInvocation", "", "MAX_ITEMS_PER_INVOCATION", asCount},
	{"preferredLocations", "", "PREFERRED_LOCATIONS", asText},
	{"changeFeedMode", "", "CHANGE_FEED_MODE", asText},
	{"startFrom", "", "START_FROM", asStart}, // made of startFromBeginning and startFromTime
	{"checkpointInterval", "", "CHECKPOINT_INTERVAL", asInterval},
	{"checkpointDocumentCount", "", "CHECKPOINT_EVERY", asCount},
}

// settinglessProperties are other properties, with the reason why they have no setting; ""
// needs no explanation.
var settinglessProperties = map[string]string{
	"type": "", "name": "", "direction": "", "dataType": "",
	"startFromBeginning": "", "startFromTime": "", // see startFrom
	"createLeaseContainerIfNotExists":  notCreated,
	"createLeaseCollectionIfNotExists": notCreated,
	"leasesContainerThroughput":        notCreated,
	"leasesCollectionThroughput":       notCreated,
	"leaseCollectionThroughput":        notCreated,
	"useMultipleWriteLocations":        "Halley writes leases in the first write region of the account",
	"useDefaultJsonSerialization":      "the handler decodes documents itself",
}

const notCreated = "Halley creates no containers; the lease container exists if the trigger has run"

// Translation is the outcome for one binding.
type Translation struct {
	Settings [][2]string // names of variables and their values
	Open     []string    // settings that could not be translated
	Notes    []string    // other properties that have no effect now
}

// TranslateBinding translates the function.json of a Cosmos DB trigger to settings
// whose names begin with prefix, so that they select the same leases and containers.
// host is the host.json of its app, or empty. lookup returns an app setting, "" if it
// is not set here.
func TranslateBinding(function, host []byte, prefix string, lookup func(string) string) (t Translation, err error) {
	var file struct {
		Bindings []map[string]json.RawMessage
		Retry    *retryPolicy
	}
	if err := json.Unmarshal(function, &file); err != nil {
		return t, fmt.Errorf("not valid JSON: %w", err)
	}
	defaults, err := readHostDefaults(host)
	if err != nil {
		return t, err
	}
	var properties map[string]string
	for _, b := range file.Bindings {
		if kind := propertyText(b["type"]); !strings.EqualFold(kind, triggerBinding) {
			t.Notes = append(t.Notes, fmt.Sprintf("binding %s of type %s: a handler reads and writes by itself", propertyText(b["name"]), kind))
			continue
		}
		if properties, err = readProperties(b, defaults.Extensions.CosmosDB.LeaseOptions.LeasePrefix); err != nil {
			return t, err
		}
	}
	if properties == nil {
		return t, fmt.Errorf("no binding of type %s", triggerBinding)
	}
	for _, p := range bindingProperties {
		t.translate(p.setting, properties[p.name], prefix, p.translate, lookup)
		delete(properties, p.name)
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if reason, known := settinglessProperties[name]; !known {
			t.Notes = append(t.Notes, name+": no setting is known for it")
		} else if reason != "" {
			t.Notes = append(t.Notes, name+": "+reason)
		}
	}
	return t, t.translateRetry(cmp.Or(file.Retry, defaults.Retry), prefix)
}

// readProperties returns the properties of a binding by their names of version 4, with
// the trigger's defaults for those that select leases: settings of the app must not
// take their place. hostPrefix is the lease prefix of host.json, which version 3 uses.
func readProperties(binding map[string]json.RawMessage, hostPrefix string) (map[string]string, error) {
	properties, old := map[string]string{}, false
	for name, value := range binding {
		properties[currentName(name)] = propertyText(value)
		old = old || strings.EqualFold(name, "collectionName")
	}
	if !old {
		hostPrefix = ""
	}
	for _, required := range []string{"databaseName", "containerName"} {
		if properties[required] == "" {
			return nil, fmt.Errorf("the binding has no %s", required)
		}
	}
	for name, value := range map[string]string{
		"connection":           "CosmosDB",
		"leaseConnection":      cmp.Or(properties["connection"], "CosmosDB"),
		"leaseDatabaseName":    properties["databaseName"],
		"leaseContainerName":   "leases",
		"leaseContainerPrefix": cmp.Or(hostPrefix, trigger.NoLeasePrefix),
	} {
		properties[name] = cmp.Or(properties[name], value)
	}
	return properties, readStart(properties)
}

// currentName returns the name of a property in version 4. The Functions host ignores
// the case.
func currentName(name string) string {
	for _, p := range bindingProperties {
		if strings.EqualFold(name, p.name) || strings.EqualFold(name, p.before) {
			return p.name
		}
	}
	for known := range settinglessProperties {
		if strings.EqualFold(name, known) {
			return known
		}
	}
	return name
}

// propertyText returns a string without its quotes, a number or a truth value as it is
// written, and "" for null.
func propertyText(value json.RawMessage) string {
	var text string
	if string(value) == "null" || json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// readStart replaces the two properties about the start by one.
func readStart(properties map[string]string) error {
	beginning, at := properties["startFromBeginning"], properties["startFromTime"]
	delete(properties, "startFromBeginning")
	delete(properties, "startFromTime")
	if at != "" && strings.EqualFold(beginning, "true") {
		return errors.New("startFromBeginning and startFromTime exclude each other: remove one")
	}
	properties["startFrom"] = cmp.Or(at, beginning, "now")
	return nil
}

// settingToken is a reference to an app setting inside a property.
var settingToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%[^%\s]+%`) })

// translate adds one setting. The value "" leaves Halley's default.
func (t *Translation) translate(setting, text, prefix string, translate func(string) (string, error), lookup func(string) string) {
	var missing []string
	if !strings.HasSuffix(setting, "CONNECTION") { // the trigger takes the name of a connection as it is
		text = settingToken().ReplaceAllStringFunc(text, func(token string) string {
			v := lookup(strings.Trim(token, "%"))
			if v == "" {
				missing = append(missing, token)
			}
			return cmp.Or(v, token)
		})
	}
	value, err := translate(text)
	if strings.ContainsFunc(value, func(r rune) bool { return !strconv.IsPrint(r) }) {
		err = fmt.Errorf("%q has a line break or another character that cannot be printed", value)
	}
	if len(missing) > 0 {
		err = fmt.Errorf("%q refers to %s, which is not set here", text, strings.Join(missing, ", "))
	}
	if err != nil {
		t.Open = append(t.Open, fmt.Sprintf("%s%s: %v", prefix, setting, err))
	} else if value != "" {
		t.Settings = append(t.Settings, [2]string{prefix + setting, value})
	}
}

func asText(s string) (string, error) { return s, nil }

// asConnection refuses a connection string in the place of the name of a setting.
func asConnection(s string) (string, error) {
	if name := settings.ConnectionName(s); name.Misplaced() {
		return "", fmt.Errorf("%v is not the name of an app setting", name)
	}
	return s, nil
}

// mostCount is the largest number of a binding: its properties are of type int of .NET.
const mostCount = math.MaxInt32

// asCount translates a number; 0 stands for the default.
func asCount(s string) (string, error) {
	if s == "" || s == "0" {
		return "", nil
	}
	if n, err := strconv.Atoi(s); err != nil || n < 0 || n > mostCount {
		return "", fmt.Errorf("%q is not a whole number from 0 to %d", s, mostCount)
	}
	return s, nil
}

// asInterval translates milliseconds.
func asInterval(s string) (string, error) {
	n, err := asCount(s)
	if n == "" || err != nil {
		return "", err
	}
	ms, _ := strconv.Atoi(n)
	return (time.Duration(ms) * time.Millisecond).String(), nil
}

// asStart translates the value of startFromBeginning or startFromTime. A time without a
// zone is in UTC, as on the machines of Azure Functions.
func asStart(s string) (string, error) {
	switch strings.ToLower(s) {
	case "true":
		return "beginning", nil
	case "false":
		return "now", nil
	}
	if _, err := trigger.ParseStart(s); err == nil {
		return s, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if at, err := time.Parse(layout, s); err == nil {
			return at.Format(time.RFC3339), nil
		}
	}
	return "", fmt.Errorf("%q is neither a truth value nor a time such as 2026-01-31T09:00:00Z", s)
}

// hostDefaults are the parts of host.json that change the trigger.
type hostDefaults struct {
	Retry      *retryPolicy
	Extensions struct {
		CosmosDB struct {
			LeaseOptions struct{ LeasePrefix string } // in version 3 and before
		}
	}
}

func readHostDefaults(host []byte) (d hostDefaults, err error) {
	if len(host) > 0 {
		if err = json.Unmarshal(host, &d); err != nil {
			err = fmt.Errorf("host.json: not valid JSON: %w", err)
		}
	}
	return d, err
}

// retryPolicy is the policy of a function. The trigger skips a batch after its last
// attempt; Halley stores the changes that fail as dead letters.
type retryPolicy struct {
	Strategy        string
	MaxRetryCount   int // -1 is without an end
	DelayInterval   string
	MinimumInterval string
	MaximumInterval string
}

// translateRetry adds the settings of a policy, if there is one.
func (t *Translation) translateRetry(policy *retryPolicy, prefix string) error {
	if policy == nil {
		return nil
	}
	if policy.MaxRetryCount > mostCount {
		return fmt.Errorf("retry: maxRetryCount %d is above %d", policy.MaxRetryCount, mostCount)
	}
	attempts := settings.Unlimited
	if policy.MaxRetryCount >= 0 {
		attempts = settings.Limit(policy.MaxRetryCount + 1)
	}
	t.Settings = append(t.Settings, [2]string{prefix + "MAX_ATTEMPTS", attempts.String()})
	waits := [][2]string{{"RETRY_MIN", policy.MinimumInterval}, {"RETRY_MAX", policy.MaximumInterval}}
	if strings.EqualFold(policy.Strategy, "fixedDelay") {
		waits = [][2]string{{"RETRY_MIN", policy.DelayInterval}, {"RETRY_MAX", policy.DelayInterval}}
	}
	for _, w := range waits {
		if w[1] == "" {
			continue
		}
		wait, err := parseTimeSpan(w[1])
		if err != nil {
			return fmt.Errorf("retry: %w", err)
		}
		t.Settings = append(t.Settings, [2]string{prefix + w[0], wait.String()})
	}
	return nil
}
