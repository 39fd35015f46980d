// Package demo starts what the demo app needs in a development run: an embedded
// Redis, a push receiver with one device for each player, and a writer of game results.
package demo
