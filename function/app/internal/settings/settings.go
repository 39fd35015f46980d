// Package settings reads the environment into the settings of an app and of its functions,
// and refuses those that cannot work. It knows kinds of dead letter stores and names of
// connections, and opens neither.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kelseyhightower/envconfig"

	"halley/handlers"
)

// Only drops the other functions; "" keeps all.
func (s *Settings) Only(function string) error {
	if function == "" {
		return nil
	}
	s.Functions = slices.DeleteFunc(s.Functions, func(f Function) bool { return f.Name != function })
	if len(s.Functions) == 0 {
		return fmt.Errorf("--function %s: not an enabled function, choose from %s", function, s.App.Functions)
	}
	return nil
}

// prefix begins the name of every setting. HALLEY_<NAME> applies to all functions,
// HALLEY_<FUNCTION>_<NAME> to one.
const prefix = "HALLEY"

// Settings is the environment, read once.
type Settings struct {
	App       App
	Functions []Function // the enabled ones, in the order of the handlers' list
	Values    []Value    // every effective setting, for the command check

	stores   []StoreKind // the kinds that the app links
	defaults ConnectionDefaults
	presets  map[string]string
	zeros    []error // settings that are 0 although 0 stands for a default
}

// App apply to the whole process: HALLEY_<NAME>.
type App struct {
	Functions list      `split_words:"true" desc:"enabled functions, separated by commas; all if empty"`
	Mode      Mode      `split_words:"true" desc:"under the Functions host: timer drains at each timer invocation, fanout spreads ranges over instances through a queue, continuous works all the time"`
	Owner     string    `split_words:"true" desc:"this host's name in leases; the machine's name and a random part if empty"`
	StopGrace interval  `split_words:"true" desc:"time that a running handler gets at a stop"`
	MaxStuck  count     `split_words:"true" desc:"more handler calls than this that never return end the process, so that it is replaced; not under AWS Lambda"`
	LogLevel  LogLevel  `split_words:"true" desc:"debug, info, warn or error"`
	LogFormat LogFormat `split_words:"true" desc:"json, text, or auto: text on a terminal and json elsewhere"`

	MetricsAddress listenAddress `split_words:"true" desc:"address on which run, and the continuous mode under the Functions host, serve /metrics, /healthz and /readyz, such as :9464; none if empty"`

	PageToken         handlers.Secret `split_words:"true" desc:"token of the operators' page, 16 characters or more: actions need it, and beyond loopback all data; a random one, which run prints, if empty"`
	PageHideDocuments toggle          `split_words:"true" desc:"the operators' page neither shows nor sends documents"`
}

// Feed select the monitored container, the leases and their intervals. If
// the Cosmos DB extension for Azure Functions has a setting, its name in upper snake
// case and its default are used. A function may override each:
// HALLEY_<FUNCTION>_<NAME>.
type Feed struct {
	Connection              ConnectionName `split_words:"true" desc:"name of the connection of the monitored account"`
	DatabaseName            string         `split_words:"true" desc:"database of the monitored container; required"`
	ContainerName           string         `split_words:"true" desc:"monitored container; required"`
	LeaseConnection         ConnectionName `split_words:"true" desc:"name of the connection of the leases; CONNECTION if empty"`
	LeaseDatabaseName       string         `split_words:"true" desc:"database of the leases; DATABASE_NAME if empty"`
	LeaseContainerName      string         `split_words:"true" desc:"container of the leases, with partition key /id"`
	LeaseContainerPrefix    string         `split_words:"true" desc:"begins the ids of the leases; the function's name if not set, and / for none, as in a Cosmos DB trigger without a prefix"`
	FeedPollDelay           interval       `split_words:"true" desc:"wait between two reads of an idle range"`
	FeedPollMin             interval       `split_words:"true" desc:"wait before the first read after changes; doubles up to FEED_POLL_DELAY"`
	ReadRequestUnits        perSecond      `split_words:"true" desc:"request units a second that reads of the feed cost on this host at most; 0 is no limit"`
	LeaseAcquireInterval    interval       `split_words:"true" desc:"how often a host looks for leases to take"`
	LeaseExpirationInterval interval       `split_words:"true" desc:"how long a lease belongs to a host that does not write it"`
	LeaseRenewInterval      interval       `split_words:"true" desc:"how often a lease without progress is written; less than half the expiration"`
	MaxItemsPerInvocation   count          `split_words:"true" desc:"changes in a batch at most"`
	PageItems               bound          `split_words:"true" desc:"requested page size; 0 is 100, and up to 1,000 while a range is behind; a transaction is never divided, so a page may be larger"`
	StartFrom               startFrom      `split_words:"true" desc:"start of a range without a checkpoint: beginning, now or an RFC 3339 time"`
	PreferredLocations      list           `split_words:"true" desc:"regions to read from, in order; the account's own order if empty"`
	ChangeFeedMode          feedMode       `split_words:"true" desc:"latest-version, or all-versions with every version and delete"`
	SoftDeleteProperty      string         `split_words:"true" desc:"property that marks a document as deleted if it is true, in latest-version mode"`
	Filter                  filterSetting  `split_words:"true" desc:"changes that the function gets: an event filter pattern as of AWS Lambda, or a JSON list of patterns, one of which must match; all if empty"`
	MinLeases               bound          `split_words:"true" desc:"leases that a continuous host takes at least if they have no owner, even if its equal share is less; 0 is no bound"`
	MaxLeases               bound          `split_words:"true" desc:"leases that a continuous host takes at most, even if its equal share is more; 0 is no bound"`
	ResetLeases             toggle         `split_words:"true" desc:"delete the function's leases at the start and begin at START_FROM: for one start of the command run, with no other host running"`
}

// Function are the effective settings of one enabled function.
type Function struct {
	handlers.Entry
	Feed
	Delivery
	Own                any // the handler's own settings, as [handlers.Entry.Open] takes them
	ConnectionDefaults ConnectionDefaults
}

// Value is one effective setting and its source.
type Value struct{ Name, Value, Source string }

// Load reads the environment for the functions of the app. Each error names
// the setting and the fix.
func Load(of Source) (*Settings, error) { return LoadPreset(of, Preset{}) }

// Preset are defaults of a development run. The environment overrides each.
type Preset struct {
	Settings map[string]string // by the names of variables
	Emulator string            // endpoint of the account that the connection "emulator" selects
}

// LoadPreset reads the environment, and takes settings that it lacks from p.
func LoadPreset(of Source, p Preset) (*Settings, error) {
	s := &Settings{
		App:    App{Mode: ModeTimer, LogLevel: "info", LogFormat: FormatAuto},
		stores: storeKinds(of.Stores), presets: p.Settings, defaults: ConnectionDefaults{Emulator: p.Emulator, Unnamed: of.Credential},
	}
	functions := of.Handlers
	if err := refuseUnknown(of.Variables()); err != nil {
		return nil, err
	}
	if err := errors.Join(s.preset(prefix, &s.App), process(prefix, &s.App)); err != nil {
		return nil, err
	}
	enabled, err := enable(functions, s.App.Functions)
	if err != nil {
		return nil, err
	}
	s.App.Functions = Names(enabled)
	s.zeros = s.App.fillDefaults()
	s.Values = append(s.Values, s.values(&s.App, prefix)...)
	var errs []error
	for _, f := range enabled {
		errs = append(errs, s.addFunction(f))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, s.validate()
}

// addFunction reads one function: its own values override those of the app.
func (s *Settings) addFunction(entry handlers.Entry) error {
	functionPrefix := ownPrefix(entry)
	f := NewFunction(entry)
	f.ConnectionDefaults = s.defaults
	for _, read := range []func(string, any) error{s.preset, process} {
		for _, p := range []string{prefix, functionPrefix} {
			if err := errors.Join(read(p, &f.Feed), read(p, &f.Delivery)); err != nil {
				return err
			}
		}
	}
	if err := f.DeadLetters.resolve(s.stores); err != nil {
		return fmt.Errorf("%s=%q: %w", f.Variable("DEAD_LETTERS"), withoutSecret(f.DeadLetters.String()), err)
	}
	var err error
	if f.Own, err = entry.Load(); err == nil {
		err = s.preset(functionPrefix, f.Own)
	}
	if err != nil {
		return err
	}
	f.LeaseConnection = cmp.Or(f.LeaseConnection, f.Connection)
	f.LeaseDatabaseName = cmp.Or(f.LeaseDatabaseName, f.DatabaseName)
	s.zeros = append(s.zeros, f.fillDefaults(&s.App)...)
	s.Functions = append(s.Functions, f)
	s.Values = append(s.Values, s.values(&f.Feed, functionPrefix, prefix)...)
	s.Values = append(s.Values, s.values(&f.Delivery, functionPrefix, prefix)...)
	s.Values = append(s.Values, s.values(f.Own, functionPrefix)...)
	return nil
}

// ownPrefix begins the settings of one function, as HALLEY_LEADERBOARD.
func ownPrefix(e handlers.Entry) string { return strings.TrimSuffix(e.Prefix(), "_") }

// NewFunction returns the defaults of settings that the runtime does not
// know: connections, databases and kinds of stores.
func NewFunction(entry handlers.Entry) Function {
	f := Function{Entry: entry}
	f.Connection = "CosmosDB"
	f.LeaseContainerName = "leases"
	f.LeaseContainerPrefix = entry.Name
	container := containerKind()
	f.DeadLetters = StoreSetting{Kind: container.Name, row: &container}
	f.DeadLettersConnection = "AzureWebJobsStorage"
	return f
}

// preset sets the fields of spec that have a preset and no value in the environment.
func (s *Settings) preset(prefix string, spec any) error {
	for setting, value := range reflect.ValueOf(spec).Elem().Fields() {
		name := prefix + "_" + envName(setting)
		text, ok := s.presets[name]
		if !ok || os.Getenv(name) != "" {
			continue
		}
		if decoder, ok := value.Addr().Interface().(envconfig.Decoder); ok {
			if err := decoder.Decode(text); err != nil {
				return fmt.Errorf("preset %s=%s: %w", name, text, err)
			}
			continue
		}
		if err := setText(value, text); err != nil {
			return fmt.Errorf("preset %s=%s: %w", name, text, err)
		}
	}
	return nil
}

// setText sets a field of any type that envconfig knows, as it would set it from a
// variable with that text: text is the default of a variable that does not exist.
func setText(value reflect.Value, text string) error {
	one := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: "Value", Type: value.Type(), Tag: reflect.StructTag("default:" + strconv.Quote(text)),
	}}))
	if err := envconfig.Process(prefix+"_PRESET", one.Interface()); err != nil {
		return err
	}
	value.Set(one.Elem().Field(0))
	return nil
}

// process wraps envconfig.Process: its errors name settings and hide connection
// strings.
func process(prefix string, spec any) error {
	err := envconfig.Process(prefix, spec)
	var parse *envconfig.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("%s=%q: %w", parse.KeyName, withoutSecret(parse.Value), parse.Err)
	}
	return err
}

// withoutSecret returns a value for an error, unless it could be a connection string.
func withoutSecret(value string) string {
	if strings.Contains(value, "=") {
		return redacted
	}
	return value
}

// enable returns the functions that HALLEY_FUNCTIONS names, or all if it is empty.
func enable(functions []handlers.Entry, wanted list) ([]handlers.Entry, error) {
	if len(wanted) == 0 {
		return functions, nil
	}
	all := Names(functions)
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

// Names lists the names of functions.
func Names(functions []handlers.Entry) list {
	var l list
	for _, f := range functions {
		l = append(l, f.Name)
	}
	return l
}

// refuseUnknown reports variables that begin with HALLEY_ and are not known settings,
// each with the nearest name of a setting.
func refuseUnknown(known []string) error {
	var errs []error
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(strings.ToUpper(name), prefix+"_") && !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("%s is not a setting: %s", name, suggest(name, known)))
		}
	}
	return errors.Join(errs...)
}

// suggest returns the fix for an unknown name.
func suggest(name string, known []string) string {
	best, distance := "", len(name)/3+1
	wanted := strings.Replace(strings.ToUpper(name), "BATCH_ITEMS", "MAX_ITEMS_PER_INVOCATION", 1) // as triggers call it
	for _, k := range known {
		if d := editDistance(wanted, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return "remove it, or see the command check for the settings there are"
	}
	return fmt.Sprintf("did you mean %s?", best)
}

// editDistance returns the Levenshtein distance in bytes.
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

// Keys lists the variables of spec's fields.
func Keys(prefix string, spec any) []string {
	t := reflect.TypeOf(spec).Elem()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = prefix + "_" + envName(t.Field(i))
	}
	return names
}

// values lists spec's fields under the first prefix. If a variable is set under
// several of the prefixes, the first is the source.
func (s *Settings) values(spec any, prefixes ...string) []Value {
	v := reflect.ValueOf(spec).Elem()
	var out []Value
	for i := range v.NumField() {
		name := envName(v.Type().Field(i))
		out = append(out, Value{
			Name:   prefixes[0] + "_" + name,
			Value:  fmt.Sprint(v.Field(i).Interface()),
			Source: s.source(name, prefixes),
		})
	}
	return out
}

func (s *Settings) source(name string, prefixes []string) string {
	for _, p := range prefixes {
		if _, ok := os.LookupEnv(p + "_" + name); ok {
			return "environment " + p + "_" + name
		}
	}
	for _, p := range prefixes {
		if _, ok := s.presets[p+"_"+name]; ok {
			return "preset of dev"
		}
	}
	return "default"
}

// envName spells the name of a field as envconfig does. If it is tagged split_words,
// LeaseContainerName is LEASE_CONTAINER_NAME and RedisURL is REDIS_URL; if not, they
// are LEASECONTAINERNAME and REDISURL.
func envName(field reflect.StructField) string {
	if split, _ := strconv.ParseBool(field.Tag.Get("split_words")); !split {
		return strings.ToUpper(field.Name)
	}
	var b strings.Builder
	name := []rune(field.Name)
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
