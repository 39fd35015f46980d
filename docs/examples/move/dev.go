//go:build !nodev

package main

import (
	"context"

	"halley/function/app"
)

// startDev presets the target for the command dev.
func startDev(context.Context) (*app.DevServices, error) {
	return &app.DevServices{Settings: map[string]string{"HALLEY_MIGRATE_TARGET_CONTAINER_NAME": target}}, nil
}
