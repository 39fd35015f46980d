package settings

import (
	"os"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"halley/handlers"
)

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
	StartFrom               startFrom      `split_words:"true" desc:"start of a range without a checkpoint: beginning, now or an RFC 3339 time; in all-versions mode now, or snapshot: the documents that exist, then every version"`
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

// ownPrefix begins the settings of one function, as HALLEY_LEADERBOARD.
func ownPrefix(e handlers.Entry) string { return strings.TrimSuffix(e.Prefix(), "_") }

// Variable returns the variable that sets name for the function: its own variable if
// it is set, and the app's if not.
func (f *Function) Variable(name string) string {
	functionPrefix := ownPrefix(f.Entry)
	if _, ok := os.LookupEnv(functionPrefix + "_" + name); ok {
		return functionPrefix + "_" + name
	}
	return prefix + "_" + name
}

// Place identifies a container.
type Place struct {
	Connection          ConnectionName
	Database, Container string
}

// MonitoredPlace is the container whose changes the function handles.
func (f *Function) MonitoredPlace() Place {
	return Place{f.Connection, f.DatabaseName, f.ContainerName}
}

// LeasePlace is the container of its leases.
func (f *Function) LeasePlace() Place {
	return Place{f.LeaseConnection, f.LeaseDatabaseName, f.LeaseContainerName}
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
