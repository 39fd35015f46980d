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
	AppName   string    `split_words:"true" desc:"name of this app in leases, by which two apps that share leases by mistake are told; the name that Azure Functions, App Service, Container Apps or AWS Lambda gives it if empty"`
	Owner     string    `split_words:"true" desc:"this host's name in leases; the machine's name and a random part if empty"`
	StopGrace interval  `split_words:"true" desc:"time that a running handler gets at a stop"`
	MaxStuck  count     `split_words:"true" desc:"more handler calls than this that never return end the process, so that it is replaced; not under AWS Lambda"`
	LogLevel  LogLevel  `split_words:"true" desc:"debug, info, warn or error"`
	LogFormat LogFormat `split_words:"true" desc:"json, text, or auto: text on a terminal and json elsewhere"`

	MetricsAddress listenAddress `split_words:"true" desc:"address on which run, and the continuous mode under the Functions host, serve /metrics, /healthz and /readyz, such as :9464; none if empty"`

	Prices Prices `desc:"prices for status --forecast and check, in any currency: provisioned and autoscale for 100 request units a second during an hour, serverless for a million request units, such as provisioned=0.008,autoscale=0.012,serverless=0.25"`

	PageToken         handlers.Secret `split_words:"true" desc:"token of the operators' page, 16 characters or more: actions need it, and beyond loopback all data; a random one, which run prints, if empty"`
	PageHideDocuments toggle          `split_words:"true" desc:"the operators' page neither shows nor sends documents"`
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
