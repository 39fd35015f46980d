package emulator

import (
	"net/url"
	"strings"
)

// Resource types, as they appear in paths and signatures.
const (
	kindAccount    = ""
	kindDatabase   = "dbs"
	kindContainer  = "colls"
	kindItem       = "docs"
	kindRange      = "pkranges"
	kindOffer      = "offers"
	kindUser       = "users"
	kindPermission = "permissions"
	kindConflict   = "conflicts"
	kindKey        = "partitionkey" // in signatures; its paths have operations
)

// target is the resource that a path names. Database, container and id are names
// or resource ids.
type target struct {
	kind                    string
	database, container, id string // id of the resource itself; "" for a list
	link                    string // the link that a signature covers: a list has its owner's
}

// children are the resource types below each type.
var children = map[string][]string{
	kindAccount:   {kindDatabase, kindOffer},
	kindDatabase:  {kindContainer, kindUser},
	kindContainer: {kindItem, kindRange, kindConflict, "operations"},
	kindUser:      {kindPermission},
}

// parseTarget reads the escaped path itself: http.ServeMux would redirect the
// doubled slashes that some clients send, and decode the slashes inside names.
func parseTarget(path string) (target, error) {
	var segments []string
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" {
			continue
		}
		name, err := url.PathUnescape(segment)
		if err != nil {
			return target{}, invalidPath()
		}
		segments = append(segments, name)
	}
	return walk(segments)
}

func walk(segments []string) (target, error) {
	var t target
	for i := 0; i < len(segments); i += 2 {
		if f := find(resourceFeatures, segments[i]); f != nil && f.support == refused {
			return target{}, unsupported("The resource type "+f.name, f.note)
		}
		if !contains(children[t.kind], segments[i]) {
			return target{}, invalidPath()
		}
		t.kind, t.id = segments[i], ""
		t.link = strings.Join(segments[:i], "/")
		if i+1 < len(segments) {
			t.name(segments[i+1])
			t.link = strings.Join(segments[:i+2], "/")
		}
		if t.kind == "operations" { // signed as the key of the container
			t.kind, t.link = kindKey, strings.Join(segments[:i], "/")
		}
	}
	return t, nil
}

func invalidPath() *failure { return badRequest("Request url is invalid.") }

// name sets the id that follows a type.
func (t *target) name(id string) {
	t.id = id
	switch t.kind {
	case kindDatabase:
		t.database = id
	case kindContainer:
		t.container = id
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
