package cosmos_test

import (
	"testing"

	"halley/trigger/cosmos"
)

func TestDeleteContainerAndDatabase(t *testing.T) {
	c, account := newContainer(t, nil)
	client, ctx := c.Client(), t.Context()
	if _, err := c.Properties(ctx); err != nil {
		t.Fatal(err)
	}
	if err := client.DeleteContainer(ctx, "db", "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Properties(ctx); !cosmos.IsNotFound(err) {
		t.Errorf("properties of a deleted container: %v", err)
	}
	if err := client.DeleteContainer(ctx, "db", "c"); !cosmos.IsNotFound(err) {
		t.Errorf("second delete: %v", err)
	}
	if err := client.DeleteDatabase(ctx, "db"); err != nil || len(account.State().Databases) > 0 {
		t.Errorf("%v, left: %v", err, account.State().Databases)
	}
	if err := client.DeleteDatabase(ctx, "db"); !cosmos.IsNotFound(err) {
		t.Errorf("second delete: %v", err)
	}
}

func TestSetThroughput(t *testing.T) {
	c, _ := newContainer(t, nil)
	client := c.Client()
	ctx := t.Context()
	def := cosmos.ContainerDefinition{ID: "own", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/pk"}}, Throughput: 400}
	if err := client.CreateContainer(ctx, "db", def); err != nil {
		t.Fatal(err)
	}
	properties, err := client.Container("db", "own").Properties(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.SetThroughput(ctx, properties.ResourceID, 11_000); err != nil {
		t.Error(err)
	}
	if err := client.SetThroughput(ctx, properties.ResourceID, 1); err == nil {
		t.Error("the account has not seen the throughput: it refuses 1 RU/s")
	}
	if err := client.SetThroughput(ctx, "unknown", 11_000); err == nil {
		t.Error("an unknown resource got a throughput")
	}
}
