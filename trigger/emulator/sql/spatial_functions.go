package sql

import (
	"bytes"
	"encoding/json"
	"math"
)

// spatialFunctions work on GeoJSON. The last argument says whether coordinates lie in
// a plane; resolve adds it. Shapes of other types than the ones below are refused.
var spatialFunctions = map[string]*function{
	"ST_DISTANCE": ofRun(2, 2, spatialDistance),
	"ST_WITHIN":   ofRun(2, 2, spatialWithin),
	"ST_ISVALID":  ofRun(1, 1, func(_ *run, a []value) value { _, ok := shapeOf(a[0]); return boolean(ok) }),
}

// shape is a point, or the polygons of a region: each has an outer ring and holes.
type shape struct {
	kind     string
	point    point
	polygons [][][]point
}

// point is longitude and latitude in degrees, or x and y.
type point [2]float64

// shapeOf reads a Point, Polygon or MultiPolygon. A LineString has only its kind.
func shapeOf(v value) (shape, bool) {
	var parsed struct {
		Type        string          `json:"type"`
		Coordinates json.RawMessage `json:"coordinates"`
	}
	if v.kind != kindObject || json.Unmarshal(v.raw, &parsed) != nil {
		return shape{}, false
	}
	s := shape{kind: parsed.Type}
	switch s.kind {
	case "Point":
		var p []float64
		if json.Unmarshal(parsed.Coordinates, &p) != nil || len(p) < 2 {
			return s, false
		}
		s.point = point{p[0], p[1]}
		return s, true
	case "Polygon":
		parsed.Coordinates = bytes.Join([][]byte{{'['}, parsed.Coordinates, {']'}}, nil)
		fallthrough
	case "MultiPolygon":
		return s, json.Unmarshal(parsed.Coordinates, &s.polygons) == nil && closed(s.polygons)
	case "LineString":
		var line []point
		return s, json.Unmarshal(parsed.Coordinates, &line) == nil && len(line) > 1
	}
	return s, false
}

// closed reports whether there are rings, and each ends where it begins.
func closed(polygons [][][]point) bool {
	for _, rings := range polygons {
		for _, ring := range rings {
			if len(ring) < 4 || ring[0] != ring[len(ring)-1] {
				return false
			}
		}
		if len(rings) == 0 {
			return false
		}
	}
	return len(polygons) > 0
}

// shapes reads two shapes. It returns false if one is not valid GeoJSON.
func shapes(a []value) (x, y shape, ok bool) {
	x, okX := shapeOf(a[0])
	y, okY := shapeOf(a[1])
	return x, y, okX && okY
}

// spatialDistance is ST_DISTANCE of two points: in meters, or in the units of a plane.
func spatialDistance(r *run, a []value) value {
	x, y, ok := shapes(a)
	switch {
	case !ok:
		return undefined
	case x.kind != "Point" || y.kind != "Point":
		return r.fail(&Error{Code: codeFunction, Message: "ST_DISTANCE between " + x.kind + " and " + y.kind + " is not supported by the Halley emulator: give two points."})
	case a[2].truth:
		return number(math.Hypot(x.point[0]-y.point[0], x.point[1]-y.point[1]))
	}
	return number(geodesic(x.point, y.point))
}

// spatialWithin is ST_WITHIN of a point in polygons.
func spatialWithin(r *run, a []value) value {
	x, y, ok := shapes(a)
	switch {
	case !ok:
		return undefined
	case x.kind != "Point" || y.polygons == nil:
		return r.fail(&Error{Code: codeFunction, Message: "ST_WITHIN of " + x.kind + " in " + y.kind + " is not supported by the Halley emulator: give a Point, and a Polygon or MultiPolygon."})
	}
	for _, rings := range y.polygons {
		if withinRings(x.point, rings, a[2].truth) {
			return boolean(true)
		}
	}
	return boolean(false)
}

// withinRings reports whether p is inside the first ring and in none of the others,
// the holes. On the globe a ring in clockwise order bounds the rest of the globe,
// https://learn.microsoft.com/azure/cosmos-db/nosql/query/geospatial.
func withinRings(p point, rings [][]point, planar bool) bool {
	for i, ring := range rings {
		inside := encloses(ring, p, planar)
		if i == 0 && !planar && area(ring) < 0 {
			inside = !inside
		}
		if inside != (i == 0) {
			return false
		}
	}
	return true
}

// area is the signed area of a ring, as if degrees were lengths: positive if the ring
// is in counterclockwise order.
func area(ring []point) float64 {
	sum := 0.0
	for i := range ring[1:] {
		a, b := ring[i], ring[i+1]
		sum += turned(b[0]-a[0], 360) * (a[1] + b[1])
	}
	return -sum / 2
}

// turned brings an angle into (-fullTurn/2, fullTurn/2].
func turned(angle, fullTurn float64) float64 {
	return angle - fullTurn*math.Ceil(angle/fullTurn-0.5)
}

// encloses adds up the angles under which p sees the sides of the ring: a full turn if
// p is inside.
func encloses(ring []point, p point, planar bool) bool {
	sum := 0.0
	for i := range ring[1:] {
		if ring[i] == p {
			return true // a corner
		}
		sum += turned(direction(p, ring[i+1], planar)-direction(p, ring[i], planar), 2*math.Pi)
	}
	return math.Abs(sum) > math.Pi
}

// direction is the angle under which a sees b, in radians.
func direction(a, b point, planar bool) float64 {
	if planar {
		return math.Atan2(b[1]-a[1], b[0]-a[0])
	}
	lat1, lat2, dLon := radians(a[1]), radians(b[1]), radians(b[0]-a[0])
	return math.Atan2(math.Cos(lat1)*math.Sin(lat2)-math.Sin(lat1)*math.Cos(lat2)*math.Cos(dLon), math.Sin(dLon)*math.Cos(lat2))
}

func radians(degrees float64) float64 { return degrees * math.Pi / 180 }

// The ellipsoid of WGS 84, in meters.
const (
	earthRadius = 6378137.0
	flattening  = 1 / 298.257223563
	polarRadius = (1 - flattening) * earthRadius
)

// geodesic is the distance of two points on the ellipsoid by the inverse formula of
// Vincenty (Survey Review XXIII, 1975). For points that are almost opposite, where the
// formula does not converge, it is the distance on a sphere.
func geodesic(p, q point) float64 {
	u1, u2 := math.Atan((1-flattening)*math.Tan(radians(p[1]))), math.Atan((1-flattening)*math.Tan(radians(q[1])))
	sin1, cos1, sin2, cos2 := math.Sin(u1), math.Cos(u1), math.Sin(u2), math.Cos(u2)
	l := radians(q[0] - p[0])
	lambda := l
	for range 100 {
		sinL, cosL := math.Sin(lambda), math.Cos(lambda)
		sinS := math.Hypot(cos2*sinL, cos1*sin2-sin1*cos2*cosL)
		if sinS == 0 {
			return 0
		}
		cosS := sin1*sin2 + cos1*cos2*cosL
		sigma := math.Atan2(sinS, cosS)
		sinA := cos1 * cos2 * sinL / sinS
		cosSqA := 1 - sinA*sinA
		cos2M := 0.0 // on the equator
		if cosSqA > 0 {
			cos2M = cosS - 2*sin1*sin2/cosSqA
		}
		c := flattening / 16 * cosSqA * (4 + flattening*(4-3*cosSqA))
		next := l + (1-c)*flattening*sinA*(sigma+c*sinS*(cos2M+c*cosS*(2*cos2M*cos2M-1)))
		if math.Abs(next-lambda) < 1e-12 {
			uSq := cosSqA * (earthRadius*earthRadius - polarRadius*polarRadius) / (polarRadius * polarRadius)
			a := 1 + uSq/16384*(4096+uSq*(-768+uSq*(320-175*uSq)))
			b := uSq / 1024 * (256 + uSq*(-128+uSq*(74-47*uSq)))
			delta := b * sinS * (cos2M + b/4*(cosS*(2*cos2M*cos2M-1)-b/6*cos2M*(4*sinS*sinS-3)*(4*cos2M*cos2M-3)))
			return polarRadius * a * (sigma - delta)
		}
		lambda = next
	}
	return haversine(p, q)
}

// haversine is the distance of two points on a sphere of the earth's mean radius.
func haversine(p, q point) float64 {
	const meanRadius = 6371008.8
	dLat, dLon := radians(q[1]-p[1]), radians(q[0]-p[0])
	h := math.Pow(math.Sin(dLat/2), 2) + math.Cos(radians(p[1]))*math.Cos(radians(q[1]))*math.Pow(math.Sin(dLon/2), 2)
	return 2 * meanRadius * math.Asin(math.Min(1, math.Sqrt(h)))
}
