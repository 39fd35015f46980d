package sql

import (
	"fmt"
	"testing"
)

const square = `{"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]], [[1, 1], [1, 2], [2, 2], [2, 1], [1, 1]]]}`

// spatialCalls are calls of the functions in spatial_functions.go.
var spatialCalls = []expressionCase{
	{`ROUND(ST_DISTANCE({"type": "Point", "coordinates": [2.3522, 48.8566]}, {"type": "Point", "coordinates": [-0.1278, 51.5074]}))`, `343923`},
	{`ST_DISTANCE({"type": "Point", "coordinates": [7, 8]}, {"type": "Point", "coordinates": [7, 8]})`, `0`},
	{`ROUND(ST_DISTANCE({"type": "Point", "coordinates": [0, 0]}, {"type": "Point", "coordinates": [180, 0]}) / 1000)`, `20015`},
	{`ST_DISTANCE({"type": "Point", "coordinates": [0]}, {"type": "Point", "coordinates": [180, 0]})`, ``},
	{`ST_DISTANCE(1, 2)`, ``},

	{`ST_WITHIN({"type": "Point", "coordinates": [3, 3]}, ` + square + `)`, `true`},
	{`ST_WITHIN({"type": "Point", "coordinates": [5, 3]}, ` + square + `)`, `false`},
	{`ST_WITHIN({"type": "Point", "coordinates": [1.5, 1.5]}, ` + square + `)`, `false`},
	{`ST_WITHIN({"type": "Point", "coordinates": [0.5, 0.5]}, {"type": "MultiPolygon", "coordinates": [[[[8, 8], [9, 8], [9, 9], [8, 8]]], [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]]})`, `true`},
	{`ST_WITHIN({"type": "Point", "coordinates": [0.5, 0.5]}, {"type": "Polygon", "coordinates": [[[0, 0], [0, 1], [1, 1], [1, 0], [0, 0]]]})`, `false`},
	{`ST_WITHIN({"type": "Point", "coordinates": [179.5, 0]}, {"type": "Polygon", "coordinates": [[[179, -1], [-179, -1], [-179, 1], [179, 1], [179, -1]]]})`, `true`},
	{`ST_WITHIN({"type": "Point", "coordinates": [178.5, 0]}, {"type": "Polygon", "coordinates": [[[179, -1], [-179, -1], [-179, 1], [179, 1], [179, -1]]]})`, `false`},
	{`ST_WITHIN("x", ` + square + `)`, ``},

	{`ST_ISVALID({"type": "Point", "coordinates": [31.9, -4.8]})`, `true`},
	{`ST_ISVALID(` + square + `)`, `true`},
	{`ST_ISVALID({"type": "LineString", "coordinates": [[0, 0], [1, 1]]})`, `true`},
	{`ST_ISVALID({"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 4], [0, 4]]]})`, `false`},
	{`ST_ISVALID({"type": "Circle", "coordinates": [1, 2]})`, `false`},
	{`ST_ISVALID(1)`, `false`},
}

func TestSpatialFunctions(t *testing.T) { checkExpressions(t, spatialCalls) }

func TestShapesOfOtherTypesAreRefused(t *testing.T) {
	for _, call := range []string{`ST_DISTANCE(` + square + `, ` + square + `)`, `ST_WITHIN(` + square + `, ` + square + `)`} {
		if _, err := query("SELECT VALUE "+call+" FROM c", []string{exprDocument}); err == nil {
			t.Errorf("%s was evaluated", call)
		}
	}
}

func TestCoordinatesInAPlane(t *testing.T) {
	c := Container{Planar: true}
	for text, want := range map[string]string{
		`ST_DISTANCE({"type": "Point", "coordinates": [0, 0]}, {"type": "Point", "coordinates": [300, 400]})`:                                                 `[500]`,
		`ST_WITHIN({"type": "Point", "coordinates": [300, 400]}, {"type": "Polygon", "coordinates": [[[0, 0], [0, 1000], [1000, 1000], [1000, 0], [0, 0]]]})`: `[true]`,
	} {
		q, err := c.Parse("SELECT VALUE " + text + " FROM c")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := q.Run(sequence([]string{`{}`}), nil, testEnv); fmt.Sprintf("%s", got) != want || err != nil {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
}
