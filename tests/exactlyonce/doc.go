// Package exactlyonce kills processes of the handlers view, opensearch and archive while they
// work: real processes over TCP, on an embedded account and a real PostgreSQL, with owner names
// that stay, so that a new process meets the leases of its own former life. In the end the
// totals must be those of the documents, and each change must have had exactly one effect; an
// index must have the documents; and a document that has aged out must be archived, once. That
// also holds after no host has run for longer than the retention of all versions. Run it with
// scripts/exactly-once.
package exactlyonce
