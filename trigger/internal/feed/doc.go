// Package feed reads the change feed of one range page by page while earlier pages
// are being delivered, within a byte budget that all ranges of a host share.
package feed
