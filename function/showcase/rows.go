package main

import "halley/function/internal/bundled"

// rows lists all handlers: the showcase shows them, and TestWalk walks them through each
// kind of change.
func rows() []row {
	notResults := []string{walkShape, walkNumberKey, walkBooleanKey, walkNullKey, walkMissingKey}
	return []row{
		{entry: bundled.Entry("leaderboard"), start: startLeaderboard, refuses: notResults},
		{entry: bundled.Entry("push"), start: startPush, refuses: notResults},
		{entry: bundled.Entry("fcm"), start: startFCM, refuses: notResults},
		{entry: bundled.Entry("mqtt"), start: startMQTT, refuses: notResults},
		{entry: bundled.Entry("cache"), start: startCache},
		{entry: bundled.Entry("view"), start: startView, needs: "HALLEY_VIEW_POSTGRES_URL"},
		{entry: bundled.Entry("search"), start: startSearch},
		{entry: bundled.Entry("opensearch"), start: startOpenSearch},
		{entry: bundled.Entry("archive"), start: startArchive},
		{entry: bundled.Entry("migrate"), start: startMigrate},
		{entry: bundled.Entry("webhook"), start: startWebhook},
		{entry: bundled.Entry("nats"), start: startNATS, needs: natsNeeds, tag: natsTag, refuses: []string{walkLarge}},
		{entry: bundled.Entry("kafka"), start: startKafka, refuses: []string{walkLarge}},
		{entry: bundled.Entry("remote"), start: startRemote},
	}
}

// The changes of the walk that a handler may refuse, by the ids of their documents.
const (
	walkGame       = "chess" // of all its documents
	walkShape      = "another shape"
	walkLarge      = "1.9 MB"
	walkNumberKey  = "a number as key"
	walkBooleanKey = "a boolean as key"
	walkNullKey    = "null as key"
	walkMissingKey = "no key"
)
