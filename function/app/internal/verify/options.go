package verify

import (
	"io"

	"halley/trigger/cosmos"
)

// Options are the settings of a run. Client, Meter and Run are required, and unless Create
// is set, so are the names of the database and the containers.
type Options struct {
	Client *cosmos.Client
	Meter  *Meter // is a policy of the client for each attempt
	Run    string // id of the run, which no other run has

	Database, Items, Leases string // with Create, Run is the default of Database, and names the containers
	Create                  bool   // create the containers, and the database if it is missing
	DataIsKnown             bool   // the containers may hold data
	Throttle, Split         bool
	Limit                   float64 // request units; 0 is DefaultLimit, and more with Throttle and Split
	Record                  bool

	Progress io.Writer // nil is none
}

// DefaultLimit is how many request units a run without options may cost.
const DefaultLimit = 1000
