package sql

import (
	"math"
	"strings"
)

// vectorFunctions compare with every document: there are no vector indexes,
// https://learn.microsoft.com/azure/cosmos-db/nosql/query/vectordistance. The last
// argument is the distance function of the container's vector, which resolve adds.
var vectorFunctions = map[string]*function{
	vectorDistance: {2, 4, false, func(r *run, a []value) value { return distanceOf(r, a) }},
}

const vectorDistance = "VECTORDISTANCE"

// Vector is a path of a container's documents at which there are vectors.
type Vector struct {
	Path     []string // property names
	Distance string   // cosine, dotproduct or euclidean
}

// distances are the distance functions. Of the first two, greater is more similar.
var distances = map[string]func(x, y []float64) float64{
	"cosine": func(x, y []float64) float64 {
		return dotProduct(x, y) / math.Sqrt(dotProduct(x, x)) / math.Sqrt(dotProduct(y, y))
	},
	"dotproduct": dotProduct,
	euclidean: func(x, y []float64) float64 {
		sum := 0.0
		for i := range x {
			sum += (x[i] - y[i]) * (x[i] - y[i])
		}
		return math.Sqrt(sum)
	},
}

const euclidean = "euclidean"

// KnowsDistance reports whether a distance function has this name, in any case.
func KnowsDistance(name string) bool { return distances[strings.ToLower(name)] != nil }

func dotProduct(x, y []float64) float64 {
	sum := 0.0
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

// distanceOf is undefined if the vectors have no numbers or different lengths.
func distanceOf(r *run, a []value) value {
	name := a[len(a)-1].text
	if len(a) == 5 && a[3].kind == kindObject {
		if option := r.property(a[3], "distanceFunction"); option.kind == kindString {
			name = option.text
		}
	}
	distance := distances[strings.ToLower(name)]
	if distance == nil {
		return r.fail(&Error{Code: codeValue, Message: "The distanceFunction '" + name + "' of VectorDistance is not cosine, dotproduct or euclidean."})
	}
	x, y := numbersOf(a[0]), numbersOf(a[1])
	if len(x) == 0 || len(x) != len(y) {
		return undefined
	}
	return number(distance(x, y))
}

// numbersOf returns the elements of an array, nil if one is not a number.
func numbersOf(array value) []float64 {
	if array.kind != kindArray {
		return nil
	}
	var numbers []float64
	for raw := range elements(array.raw) {
		v := parseValue(raw)
		if v.kind != kindNumber {
			return nil
		}
		numbers = append(numbers, v.number)
	}
	return numbers
}

// distanceName returns the distance function of a call of VectorDistance: that of its
// options, of the container's vector that it reads, or cosine.
func (c Container) distanceName(e *call, documents int) string {
	if len(e.arguments) == 4 {
		if options, ok := e.arguments[3].(*objectLiteral); ok {
			for i, name := range options.names {
				if l, ok := options.values[i].(*literal); ok && name == "distanceFunction" {
					return strings.ToLower(l.value.text)
				}
			}
		}
	}
	for _, v := range c.Vectors {
		for _, x := range e.arguments[:2] {
			if path := pathFrom(documents, x); path != nil && strings.Join(path, "\x00") == strings.Join(v.Path, "\x00") {
				return strings.ToLower(v.Distance)
			}
		}
	}
	return "cosine"
}

// vectorOrder gives an ORDER BY of a distance its default direction: the most similar
// first.
func (c Container) vectorOrder(o *ordering, documents int) {
	if e, ok := o.expr.(*call); ok && e.name == vectorDistance && !o.directed {
		o.descending = c.distanceName(e, documents) != euclidean
	}
}
