package archive

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestStoresCreateOnceAndDelete(t *testing.T) {
	eachStore(t, func(t *testing.T, store Store, _ map[string]string) {
		for i, body := range []string{"first", "second"} {
			existed, err := store.Create(t.Context(), "dt=1/x", []byte(body), "text/plain")
			if err != nil || existed != (i == 1) {
				t.Fatalf("create %q: existed %v, %v", body, existed, err)
			}
		}
		body, err := store.Read(t.Context(), "dt=1/x")
		if err != nil || string(body) != "first" {
			t.Errorf("read %q, %v", body, err)
		}
		if got := names(t, store); !slices.Equal(got, []string{"dt=1/x"}) {
			t.Errorf("names %q", got)
		}
		for range 2 {
			if err := store.Delete(t.Context(), "dt=1/x"); err != nil {
				t.Error(err)
			}
		}
		if _, err := store.Read(t.Context(), "dt=1/x"); err == nil {
			t.Error("a missing blob is read")
		}
	})
}

// Drafts of killed hosts are removed, and those of hosts that are writing stay.
func TestDraftsOfKilledHostsAreRemoved(t *testing.T) {
	d := Directory(t.TempDir())
	for name, age := range map[string]time.Duration{"old": 2 * draftAge, "new": draftAge / 2} {
		draft := filepath.Join(string(d), ".drafts", name)
		if err := os.MkdirAll(filepath.Dir(draft), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(draft, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		written := time.Now().Add(-age)
		if err := os.Chtimes(draft, written, written); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Create(t.Context(), "dt=1/x", []byte("whole"), ""); err != nil {
		t.Fatal(err)
	}
	drafts, err := os.ReadDir(d.path(".drafts"))
	if err != nil || len(drafts) != 1 || drafts[0].Name() != "new" {
		t.Errorf("drafts are %v, %v; want new alone", drafts, err)
	}
	if got := names(t, d); len(got) != 1 || got[0] != "dt=1/x" {
		t.Errorf("names are %q", got)
	}
}
