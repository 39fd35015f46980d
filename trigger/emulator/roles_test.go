package emulator

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const principal = "0c9c6f3a-5d1e-4d33-9f5c-000000000001"

// principalToken is an authorization header of a principal.
func principalToken(oid string) []string {
	part := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"oid":%q,"exp":%d}`, oid, time.Now().Add(time.Hour).Unix())
	return []string{"Authorization", "type=aad&ver=1.0&sig=" + part([]byte(`{"alg":"RS256"}`)) + "." + part([]byte(claims)) + "." + part([]byte(Key))}
}

// roleRequests are requests with the one data action that each needs.
var roleRequests = []struct {
	name, action, resource, method, path, body, status string
	header                                             []string
}{
	{"read account", actionMetadata, "", "GET", "/", "", "200", nil},
	{"list databases", actionMetadata, "/", "GET", "/dbs", "", "200", nil},
	{"read database", actionMetadata, "/dbs/db", "GET", "/dbs/db", "", "200", nil},
	{"list containers", actionMetadata, "/dbs/db", "GET", "/dbs/db/colls", "", "200", nil},
	{"read container", actionMetadata, "/dbs/db/colls/c", "GET", "/dbs/db/colls/c", "", "200", nil},
	{"ranges", actionMetadata, "/dbs/db/colls/c", "GET", "/dbs/db/colls/c/pkranges", "", "200", nil},
	{"feed", actionFeed, "/dbs/db/colls/c", "GET", items, "", "200", []string{"A-IM", "Incremental feed"}},
	{"list items", actionFeed, "/dbs/db/colls/c", "GET", items, "", "200", nil},
	{"read", actionRead, "/dbs/db/colls/c", "GET", items + "/a", "", "200", pk("k")},
	{"query", actionQuery, "/dbs/db/colls/c", "POST", items, `{"query":"SELECT * FROM c"}`, "200", with(pk("k"), "Content-Type", "application/query+json")},
	{"plan", actionQuery, "/dbs/db/colls/c", "POST", items, `{"query":"SELECT * FROM c"}`, "200", []string{"x-ms-cosmos-is-query-plan-request", "True"}},
	{"create", actionCreate, "/dbs/db/colls/c", "POST", items, doc("new", "k"), "201", pk("k")},
	{"upsert", actionUpsert, "/dbs/db/colls/c", "POST", items, doc("a", "k"), "200", with(pk("k"), "x-ms-documentdb-is-upsert", "True")},
	{"replace", actionReplace, "/dbs/db/colls/c", "PUT", items + "/a", doc("a", "k"), "200", pk("k")},
	{"patch", actionReplace, "/dbs/db/colls/c", "PATCH", items + "/a", `[{"op":"set","path":"/n","value":1}]`, "200", pk("k")},
	{"batch", actionReplace, "/dbs/db/colls/c", "POST", items, `[{"operationType":"Replace","id":"a","resourceBody":` + doc("a", "k") + `}]`, "200",
		with(pk("k"), "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True")},
	{"delete", actionDelete, "/dbs/db/colls/c", "DELETE", items + "/a", "", "204", pk("k")},
	{"delete a key", actionDelete, "/dbs/db/colls/c", "POST", deletion, "", "200", pk("k")},
}

// TestEachRequestNeedsItsDataAction: with its action alone on its resource a request
// works, and with all others it gets the answer of the service.
func TestEachRequestNeedsItsDataAction(t *testing.T) {
	for _, r := range roleRequests {
		t.Run(r.name, func(t *testing.T) {
			c, a := newItems(t, 1, nil)
			c.create("a", "k")
			header := with(principalToken(principal), r.header...)
			scope := r.resource
			if scope == anyScope {
				scope = "/dbs/db/colls/c"
			}
			others := slices.DeleteFunc(slices.Clone(knownActions[:10]), func(action string) bool { return action == r.action })
			elsewhere := RoleAssignment{principal, "/dbs/db/colls/other", knownActions[:10]}
			if r.resource == anyScope {
				elsewhere = RoleAssignment{"another principal", "/", knownActions[:10]}
			}
			if err := a.AssignRoles(RoleAssignment{principal, scope, others}, elsewhere); err != nil {
				t.Fatal(err)
			}
			refused := c.expect("403/5301", r.method, r.path, r.body, header...).decode(t)
			message := refused["message"].(string)
			on := "resource [" + strings.TrimPrefix(r.resource, "/") + "]"
			switch r.resource {
			case anyScope:
				on = "any scope"
			case "/":
				on = "resource [/]"
			}
			if says := "principal [" + principal + "] does not have required RBAC permissions to perform action [" + r.action + "] on " + on; refused["code"] != "Forbidden" || !strings.Contains(message, says) {
				t.Errorf("%v lacks %q", refused, says)
			}
			if err := a.AssignRoles(RoleAssignment{principal, scope, []string{r.action}}); err != nil {
				t.Fatal(err)
			}
			c.expect(r.status, r.method, r.path, r.body, header...)
		})
	}
}

// TestRolesHoldWithinTheirScope: assignments of a database and of the account hold below
// them, wildcards stand for their actions, and several assignments add up.
func TestRolesHoldWithinTheirScope(t *testing.T) {
	c, a := newItems(t, 1, nil)
	c.create("a", "k")
	self := c.expect("200", "GET", "/dbs/db/colls/c", "").decode(t)["_self"].(string)
	read := with(principalToken(principal), pk("k")...)
	for _, tt := range []struct {
		want  string
		roles []RoleAssignment
	}{
		{"200", nil},
		{"200", []RoleAssignment{{principal, "/", []string{actionRead}}}},
		{"200", []RoleAssignment{{principal, "/dbs/db", []string{itemActions + "*"}}}},
		{"200", []RoleAssignment{{principal, "/dbs/db/colls/c", []string{containerActions + "*"}}}},
		{"200", []RoleAssignment{{principal, "/", []string{actionCreate}}, {principal, "/", []string{actionRead}}}},
		{"403/5301", []RoleAssignment{{principal, "/dbs/d", []string{actionRead}}}},
		{"403/5301", []RoleAssignment{{principal, "/dbs/db/colls/cc", []string{actionRead}}}},
		{"403/5301", []RoleAssignment{{"other", "/", []string{actionRead}}}},
		{"403/5301", []RoleAssignment{{principal, "/", nil}}},
	} {
		if err := a.AssignRoles(tt.roles...); err != nil {
			t.Fatal(err)
		}
		c.expect(tt.want, "GET", items+"/a", "", read...)
		c.expect(tt.want, "GET", "/"+self+"docs/a", "", read...) // the same by resource ids
		c.expect("200", "GET", items+"/a", "", pk("k")...)       // signed with the key
	}
}

// TestContainersNeedTheKey: no role lets a token create or delete containers, nor read
// their throughput.
func TestContainersNeedTheKey(t *testing.T) {
	c, a := newItems(t, 1, nil)
	if err := a.AssignRoles(RoleAssignment{principal, "/", []string{actionMetadata, containerActions + "*"}}); err != nil {
		t.Fatal(err)
	}
	for _, request := range [][2]string{{"POST", "/dbs"}, {"DELETE", "/dbs/db"}, {"POST", "/dbs/db/colls"}, {"PUT", "/dbs/db/colls/c"}, {"DELETE", "/dbs/db/colls/c"}, {"GET", "/offers"}} {
		refused := c.expect("403/5300", request[0], request[1], "{}", principalToken(principal)...)
		if !strings.Contains(refused.body, "["+request[0]+" "+request[1]+"] cannot be authorized by AAD token in data plane") {
			t.Errorf("body %s", refused.body)
		}
	}
}

func TestImpossibleRolesAreRefused(t *testing.T) {
	_, a := newClient(t, nil)
	for _, tt := range []struct{ scope, action, says string }{
		{"", actionRead, `"/dbs/NAME/colls/NAME"`},
		{"dbs/db", actionRead, "scope"},
		{"/dbs", actionRead, "scope"},
		{"/dbs/db/", actionRead, "scope"},
		{"/dbs/db/colls", actionRead, "scope"},
		{"/dbs/db/containers/c", actionRead, "scope"},
		{"/dbs/db", "items/read", "is not a data action: write one of Microsoft.DocumentDB/"},
		{"/dbs/db", actionOfKey, "is not a data action"},
	} {
		if err := a.AssignRoles(RoleAssignment{principal, tt.scope, []string{tt.action}}); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q, %q: %v", tt.scope, tt.action, err)
		}
	}
	if a.roles.Load() != nil {
		t.Error("a refused role is kept")
	}
}
