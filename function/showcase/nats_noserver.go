//go:build !natsserver

package main

import "os"

// natsNeeds names the setting with real servers, because this build has none: to compile one
// takes longer than to compile Halley.
const natsNeeds = natsURL

func natsServer(*stage) (url string, err error) { return os.Getenv(natsURL), nil }
