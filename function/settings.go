package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/kelseyhightower/envconfig"

	"halley/handlers"
)

// prefix begins the name of every setting of Halley. HALLEY_<NAME> holds for
// the app, HALLEY_<FUNCTION>_<NAME> for one function.
const prefix = "HALLEY"

// settings is the environment, read once.
type settings struct {
	App       appSettings
	Functions []functionSettings // the enabled ones, in the order of the handlers' list
	Values    []value            // every effective setting, for halley check
}

// appSettings hold for the process as a whole: HALLEY_<NAME>.
type appSettings struct {
	Functions list     `split_words:"true"` // enabled functions; empty: all that are listed
	Mode      mode     `split_words:"true"`
	Owner     string   `split_words:"true"` // name in leases; empty: host name and a random part
	StopGrace interval `split_words:"true"` // how long a running handler may finish at a stop
	LogLevel  logLevel `split_words:"true"`
}

// feedSettings say what a function reads and where its leases are. Names and
// defaults are those of the Cosmos DB extension for Azure Functions, in upper
// snake case. A function may override each: HALLEY_<FUNCTION>_<NAME>.
type feedSettings struct {
	Connection              string    `split_words:"true"` // name of a connection
	DatabaseName            string    `split_words:"true"`
	ContainerName           string    `split_words:"true"`
	LeaseConnection         string    `split_words:"true"` // empty: Connection
	LeaseDatabaseName       string    `split_words:"true"` // empty: DatabaseName
	LeaseContainerName      string    `split_words:"true"`
	LeaseContainerPrefix    string    `split_words:"true"` // begins the ids of the leases; unset: the function's name
	FeedPollDelay           interval  `split_words:"true"`
	LeaseAcquireInterval    interval  `split_words:"true"`
	LeaseExpirationInterval interval  `split_words:"true"`
	LeaseRenewInterval      interval  `split_words:"true"`
	MaxItemsPerInvocation   count     `split_words:"true"` // page hint
	StartFrom               startFrom `split_words:"true"` // where a range without a lease begins
	PreferredLocations      list      `split_words:"true"` // regions; empty: the account's own order
	HandlerTimeout          interval  `split_words:"true"` // deadline of one handler call
}

// functionSettings are the effective settings of one enabled function.
type functionSettings struct {
	handlers.Entry
	feedSettings
	Own any // the handler's own settings, as [handlers.Entry.Open] takes them
}

// value is one effective setting and where it came from.
type value struct{ Name, Value, Source string }

// loadSettings reads the environment for the functions of the handlers' list.
// Each error names the setting and the fix.
func loadSettings(functions []handlers.Entry) (*settings, error) {
	s := &settings{App: appSettings{Mode: modeTimer, StopGrace: defaultStopGrace, LogLevel: "info"}}
	if err := refuseUnknown(functions); err != nil {
		return nil, err
	}
	if err := process(prefix, &s.App); err != nil {
		return nil, err
	}
	enabled, err := enable(functions, s.App.Functions)
	if err != nil {
		return nil, err
	}
	s.App.Functions = names(enabled)
	s.Values = append(s.Values, values(&s.App, prefix)...)
	var errs []error
	for _, f := range enabled {
		errs = append(errs, s.addFunction(f))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, s.validate()
}

// addFunction reads one function: the app's values first, its own over them.
func (s *settings) addFunction(entry handlers.Entry) error {
	own := ownPrefix(entry)
	f := functionSettings{Entry: entry, feedSettings: defaultFeed(entry.Name)}
	for _, p := range []string{prefix, own} {
		if err := process(p, &f.feedSettings); err != nil {
			return err
		}
	}
	var err error
	if f.Own, err = entry.Load(); err != nil {
		return err
	}
	f.LeaseConnection = cmp.Or(f.LeaseConnection, f.Connection)
	f.LeaseDatabaseName = cmp.Or(f.LeaseDatabaseName, f.DatabaseName)
	s.Functions = append(s.Functions, f)
	s.Values = append(s.Values, values(&f.feedSettings, own, prefix)...)
	s.Values = append(s.Values, values(f.Own, own)...)
	return nil
}

// ownPrefix begins the settings of one function, as HALLEY_LEADERBOARD.
func ownPrefix(e handlers.Entry) string { return strings.TrimSuffix(e.Prefix(), "_") }

func defaultFeed(function string) feedSettings {
	return feedSettings{
		Connection:              "CosmosDB",
		LeaseContainerName:      "leases",
		LeaseContainerPrefix:    function,
		FeedPollDelay:           defaultPollDelay,
		LeaseAcquireInterval:    defaultAcquire,
		LeaseExpirationInterval: defaultExpiration,
		LeaseRenewInterval:      defaultRenew,
		MaxItemsPerInvocation:   100,
		HandlerTimeout:          defaultHandlerTimeout,
	}
}

// process is envconfig.Process with errors that speak of settings.
func process(prefix string, spec any) error {
	err := envconfig.Process(prefix, spec)
	var parse *envconfig.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("%s=%q: %w", parse.KeyName, parse.Value, parse.Err)
	}
	return err
}

// enable picks the functions that HALLEY_FUNCTIONS names, or all.
func enable(functions []handlers.Entry, wanted list) ([]handlers.Entry, error) {
	if len(wanted) == 0 {
		return functions, nil
	}
	all := names(functions)
	for i, name := range wanted {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("HALLEY_FUNCTIONS names %q, which is not a function of this app: choose from %v", name, all)
		}
		if slices.Contains(wanted[:i], name) {
			return nil, fmt.Errorf("HALLEY_FUNCTIONS names %q twice: name it once", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(functions), func(f handlers.Entry) bool { return !slices.Contains(wanted, f.Name) }), nil
}

func names(functions []handlers.Entry) list {
	var l list
	for _, f := range functions {
		l = append(l, f.Name)
	}
	return l
}

// refuseUnknown reports variables that begin with HALLEY_ and are no setting,
// each with the nearest name that is one.
func refuseUnknown(functions []handlers.Entry) error {
	known := append(keys(prefix, &appSettings{}), keys(prefix, &feedSettings{})...)
	for _, f := range functions {
		known = append(known, keys(ownPrefix(f), &feedSettings{})...)
		known = append(known, keys(ownPrefix(f), f.Settings())...)
	}
	var errs []error
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(strings.ToUpper(name), prefix+"_") && !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("%s is not a setting: %s", name, suggest(name, known)))
		}
	}
	return errors.Join(errs...)
}

// suggest words the fix for an unknown name.
func suggest(name string, known []string) string {
	best, distance := "", len(name)/3+1
	for _, k := range known {
		if d := editDistance(strings.ToUpper(name), k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return "remove it, or see halley check for the settings there are"
	}
	return fmt.Sprintf("did you mean %s?", best)
}

// editDistance is Levenshtein's, in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// keys lists the variables that spec's fields are read from.
func keys(prefix string, spec any) []string {
	t := reflect.TypeOf(spec).Elem()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = prefix + "_" + envName(t.Field(i).Name)
	}
	return names
}

// values lists spec's fields under the first prefix. Their sources are the
// first variables that are set under any of the prefixes.
func values(spec any, prefixes ...string) []value {
	v := reflect.ValueOf(spec).Elem()
	var out []value
	for i := range v.NumField() {
		name := envName(v.Type().Field(i).Name)
		out = append(out, value{
			Name:   prefixes[0] + "_" + name,
			Value:  fmt.Sprint(v.Field(i).Interface()),
			Source: source(name, prefixes),
		})
	}
	return out
}

func source(name string, prefixes []string) string {
	for _, p := range prefixes {
		if _, ok := os.LookupEnv(p + "_" + name); ok {
			return "environment " + p + "_" + name
		}
	}
	return "default"
}

// envName spells the name of a field as envconfig does under split_words:
// LeaseContainerName is LEASE_CONTAINER_NAME, RedisURL is REDIS_URL.
func envName(field string) string {
	var b strings.Builder
	name := []rune(field)
	for i, r := range name {
		begins := i > 0 && unicode.IsUpper(r) &&
			(!unicode.IsUpper(name[i-1]) || i+1 < len(name) && !unicode.IsUpper(name[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}
