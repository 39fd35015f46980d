// Package filter evaluates event filter patterns on the raw bytes of documents. The
// patterns are those of AWS Lambda and Amazon EventBridge:
// https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html and
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html
//
// A pattern is a JSON object in the shape of the documents. Each field has a list of
// rules, or an object with the fields inside of it. A document passes if all fields of
// the pattern match, and a field matches if one of its rules does:
//
//	null, true, false       the same value
//	"text", ""              the same text
//	100                     the same number: 1.0 and 1e0 are 1
//	{"prefix": "a"}         a text that begins so
//	{"suffix": "a"}         a text that ends so
//	{"equals-ignore-case": "a"}
//	{"anything-but": …}     any value but the given ones: a value, a list of values, or
//	                        {"prefix": …}, {"suffix": …} or {"equals-ignore-case": …}
//	                        with a text or a list of texts
//	{"numeric": [">", 0, "<=", 5]}
//	{"exists": true}        any value; false: no value
//
// "$or" has a list of patterns for the same object; one of them must match.
//
// An array matches if one of its values does, and arrays in arrays count as one. If the
// pattern goes on inside of an array, one object of the array must match the whole
// inner pattern; if that only asks for missing fields, each of the objects must. An
// object, an empty object and an empty array are no value: for rules they are a missing
// field.
//
// Numbers are compared as decimals of any length, without rounding. Texts are compared
// as they are after decoding, so that no spelling of an escape matters, and names of
// fields too. If a document has a field twice, the last one counts, as in
// encoding/json.
//
// Lambda compares a number in a list of rules by its text, and EventBridge checks a
// missing field in an array of objects against the objects that its other rules chose
// before, in the order of names. These are the differences.
package filter
