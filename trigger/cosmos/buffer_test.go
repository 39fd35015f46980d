package cosmos

import (
	"reflect"
	"testing"
)

// TestItemBytesIsTheSizeOfAnItem: budgets of memory count items by it.
func TestItemBytesIsTheSizeOfAnItem(t *testing.T) {
	if size := reflect.TypeFor[Item]().Size(); size != itemBytes {
		t.Errorf("an Item has %d bytes", size)
	}
}
