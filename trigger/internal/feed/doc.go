// Package feed reads the change feed of one range page by page, ahead of the
// deliveries, within a byte budget that all ranges of a host share.
package feed
