package app

import "halley/function/app/internal/dev"

// Container is a container of the monitored account: Database, Name, PartitionKey (paths,
// such as /player; the default is /id), Ranges (physical ranges in the embedded account;
// the default is 1) and Seed (documents that dev writes, as encoding/json encodes them).
type Container = dev.Container

// DevServices are the additions of an app to its development run, for [Options].Dev:
// Settings are defaults of settings by the names of their variables, Prepare is called
// before the handlers are opened, Load writes documents, Figures counts for the summary,
// and Close stops the services. Each may be nil.
type DevServices = dev.Services

// DevRun is a development run of an app: the Client of its embedded account, its
// Functions, and the Rate at which Load is to write. Its methods may be called by any
// number of goroutines.
type DevRun = dev.Run

// DevFunction is one enabled function in a development run: its Name, the Database and
// Container that it monitors, and the Settings of its handler.
type DevFunction = dev.Function
