package sql

import "testing"

// products are the documents of the tables of this file.
var products = []string{
	`{"id":"p1","name":"Tent","category":"camp","price":120,"stock":[{"at":"Bern","n":3},{"at":"Oslo","n":0}],"tags":["green","new"]}`,
	`{"id":"p2","name":"Stove","category":"camp","price":45.5,"stock":[{"at":"Bern","n":8}],"tags":["new"]}`,
	`{"id":"p3","name":"Boots","category":"walk","price":120,"stock":[],"tags":["brown","new","sale"]}`,
	`{"id":"p4","name":"Map","category":"walk","price":"free","tags":[]}`,
	`{"id":"p5","name":"Rope","category":null,"price":null,"stock":[{"at":"Oslo","n":5}]}`,
	`{"id":"p6","name":"Lamp","stock":"none"}`,
}

func TestFrom(t *testing.T) {
	checkQueries(t, products, []queryCase{
		{`SELECT VALUE c.id FROM c`, []string{`"p1"`, `"p2"`, `"p3"`, `"p4"`, `"p5"`, `"p6"`}},
		{`SELECT VALUE p.id FROM products p WHERE p.price = 120`, []string{`"p1"`, `"p3"`}},
		{`SELECT VALUE p.id FROM products AS p WHERE p.price = 120`, []string{`"p1"`, `"p3"`}},
		{`SELECT VALUE t FROM t IN products.tags`, []string{`"green"`, `"new"`, `"new"`, `"brown"`, `"new"`, `"sale"`}},
		{`SELECT VALUE s.at FROM s IN c.stock`, []string{`"Bern"`, `"Oslo"`, `"Bern"`, `"Oslo"`}},
		{`SELECT VALUE s FROM s IN c.stock[0].at`, nil},
		{`SELECT VALUE at FROM c.stock[0].at`, []string{`"Bern"`, `"Bern"`, `"Oslo"`}},
		{`SELECT VALUE a FROM c["stock"][1]["at"] AS a`, []string{`"Oslo"`}},
		{`SELECT VALUE tags FROM c.tags`, []string{`["green","new"]`, `["new"]`, `["brown","new","sale"]`, `[]`}},
		{`SELECT VALUE category FROM c.category`, []string{`"camp"`, `"camp"`, `"walk"`, `"walk"`, `null`}},
		{`SELECT * FROM t IN c.tags WHERE t != "new"`, []string{`"green"`, `"brown"`, `"sale"`}},
		{`SELECT VALUE x FROM (SELECT VALUE c.id FROM c WHERE c.price = 120) AS x`, []string{`"p1"`, `"p3"`}},
		{`SELECT VALUE x.n FROM (SELECT c.name AS n FROM c WHERE c.category = "walk") x`, []string{`"Boots"`, `"Map"`}},
		{`SELECT VALUE t FROM t IN (SELECT VALUE c.tags FROM c WHERE c.id = "p1")`, []string{`"green"`, `"new"`}},
		{`SELECT VALUE COUNT(1) FROM (SELECT VALUE t FROM t IN c.tags)`, []string{`6`}},
	})
}

func TestJoin(t *testing.T) {
	checkQueries(t, products, []queryCase{
		{`SELECT c.id, s.at FROM c JOIN s IN c.stock`,
			[]string{`{"id":"p1","at":"Bern"}`, `{"id":"p1","at":"Oslo"}`, `{"id":"p2","at":"Bern"}`, `{"id":"p5","at":"Oslo"}`}},
		{`SELECT VALUE CONCAT(c.id, s.at, t) FROM c JOIN s IN c.stock JOIN t IN c.tags`,
			[]string{`"p1Berngreen"`, `"p1Bernnew"`, `"p1Oslogreen"`, `"p1Oslonew"`, `"p2Bernnew"`}},
		{`SELECT VALUE c.id FROM c JOIN s IN c.stock WHERE s.n > 4`, []string{`"p2"`, `"p5"`}},
		{`SELECT VALUE c.id FROM c JOIN s IN c.none`, nil},
		{`SELECT VALUE [a, b] FROM c JOIN a IN c.tags JOIN b IN c.tags WHERE c.id = "p1" AND a < b`, []string{`["green","new"]`}},
		{`SELECT VALUE [c.id, k] FROM c JOIN k IN (SELECT VALUE [1, 2]) WHERE c.id < "p3"`, []string{`["p1",1]`, `["p1",2]`, `["p2",1]`, `["p2",2]`}},
		{`SELECT VALUE [c.id, tax] FROM c JOIN (SELECT VALUE c.price * 2) AS tax`, []string{`["p1",240]`, `["p2",91]`, `["p3",240]`}},
		{`SELECT VALUE [c.id, tax.v] FROM c JOIN (SELECT c.price * 2 AS v) AS tax WHERE c.id > "p3"`, []string{`["p4"]`, `["p5"]`, `["p6"]`}},
		{`SELECT VALUE {"id": c.id, "n": n.total} FROM c JOIN (SELECT SUM(s.n) AS total FROM s IN c.stock) AS n WHERE n.total > 0`,
			[]string{`{"id":"p1","n":3}`, `{"id":"p2","n":8}`, `{"id":"p5","n":5}`}},
		{`SELECT VALUE [c.id, t] FROM c JOIN (SELECT VALUE t FROM t IN c.tags WHERE t != "new") AS t`, []string{`["p1","green"]`, `["p3","brown"]`, `["p3","sale"]`}},
		{`SELECT VALUE s.at FROM c JOIN d IN c.stock JOIN s IN c.stock WHERE d.at = "Oslo" AND s.n > d.n`, []string{`"Bern"`}},
		{`SELECT VALUE x FROM c JOIN s IN c.stock JOIN x IN s.at`, nil},
		{`SELECT VALUE [s.n, at] FROM c JOIN s IN c.stock JOIN s.at WHERE c.id = "p2"`, []string{`[8,"Bern"]`}},
	})
}

func TestWhere(t *testing.T) {
	checkQueries(t, products, []queryCase{
		{`SELECT VALUE c.id FROM c WHERE c.price > 100`, []string{`"p1"`, `"p3"`}},
		{`SELECT VALUE c.id FROM c WHERE c.price > "a"`, []string{`"p4"`}},
		{`SELECT VALUE c.id FROM c WHERE c.price = null`, []string{`"p5"`}},
		{`SELECT VALUE c.id FROM c WHERE NOT IS_DEFINED(c.price)`, []string{`"p6"`}},
		{`SELECT VALUE c.id FROM c WHERE c.price != 120`, []string{`"p2"`, `"p4"`, `"p5"`}},
		{`SELECT VALUE c.id FROM c WHERE c.category IN ("camp", null)`, []string{`"p1"`, `"p2"`, `"p5"`}},
		{`SELECT VALUE c.id FROM c WHERE c.category NOT IN ("camp")`, []string{`"p3"`, `"p4"`, `"p5"`}},
		{`SELECT VALUE c.id FROM c WHERE c.price BETWEEN 45.5 AND 100`, []string{`"p2"`}},
		{`SELECT VALUE c.id FROM c WHERE c.price NOT BETWEEN 45.5 AND 100`, []string{`"p1"`, `"p3"`}},
		{`SELECT VALUE c.id FROM c WHERE c.name LIKE "%o%"`, []string{`"p2"`, `"p3"`, `"p5"`}},
		{`SELECT VALUE c.id FROM c WHERE c.name NOT LIKE "%o%"`, []string{`"p1"`, `"p4"`, `"p6"`}},
		{`SELECT VALUE c.id FROM c WHERE c.tags[0] = "new"`, []string{`"p2"`}},
		{`SELECT VALUE c.id FROM c WHERE ARRAY_LENGTH(c.stock) > 0`, []string{`"p1"`, `"p2"`, `"p5"`}},
		{`SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE s FROM s IN c.stock WHERE s.n = 0)`, []string{`"p1"`}},
		{`SELECT VALUE c.id FROM c WHERE NOT EXISTS(SELECT VALUE s FROM s IN c.stock)`, []string{`"p3"`, `"p4"`, `"p6"`}},
		{`SELECT VALUE c.id FROM c WHERE (SELECT VALUE COUNT(1) FROM t IN c.tags) >= 2`, []string{`"p1"`, `"p3"`}},
		{`SELECT VALUE c.id FROM c WHERE (SELECT VALUE SUM(s.n) FROM s IN c.stock) = 3`, []string{`"p1"`}},
		{`SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(c.stock, {"at": "Bern"}, true)`, []string{`"p1"`, `"p2"`}},
		{`SELECT VALUE c.id FROM c WHERE 0 < "1"`, nil},
		{`SELECT VALUE c.id FROM c WHERE null`, nil},
		{`SELECT VALUE c.id FROM c WHERE "true"`, nil},
		{`SELECT VALUE c.id FROM c WHERE undefined OR c.id = "p1"`, []string{`"p1"`}},
	})
}

func TestSelect(t *testing.T) {
	checkQueries(t, products[:2], []queryCase{
		{`SELECT c.name FROM c`, []string{`{"name":"Tent"}`, `{"name":"Stove"}`}},
		{`SELECT c.name, c.none, c.price FROM c`, []string{`{"name":"Tent","price":120}`, `{"name":"Stove","price":45.5}`}},
		{`SELECT c.stock[0].at FROM c`, []string{`{"at":"Bern"}`, `{"at":"Bern"}`}},
		{`SELECT c.tags[0] FROM c`, []string{`{"$1":"green"}`, `{"$1":"new"}`}},
		{`SELECT c["name"] FROM c`, []string{`{"name":"Tent"}`, `{"name":"Stove"}`}},
		{`SELECT "a", 1, c.id, true FROM c WHERE c.id = "p1"`, []string{`{"$1":"a","$2":1,"id":"p1","$3":true}`}},
		{`SELECT {"id": c.id} FROM c WHERE c.id = "p1"`, []string{`{"$1":{"id":"p1"}}`}},
		{`SELECT {"id": c.id} AS o, [c.price] AS "the list" FROM c WHERE c.id = "p1"`, []string{`{"o":{"id":"p1"},"the list":[120]}`}},
		{`SELECT VALUE {"id": c.id, "none": c.none, "list": [c.none, c.price]} FROM c`, []string{`{"id":"p1","list":[120]}`, `{"id":"p2","list":[45.5]}`}},
		{`SELECT VALUE [c.id, c.price > 100] FROM c`, []string{`["p1",true]`, `["p2",false]`}},
		{`SELECT VALUE "x" FROM c`, []string{`"x"`, `"x"`}},
		{`SELECT VALUE c.none FROM c`, nil},
		{`SELECT c.none FROM c`, []string{`{}`, `{}`}},
		{`SELECT VALUE null FROM c`, []string{`null`, `null`}},
		{`SELECT COUNT(1) FROM c`, []string{`{"$1":2}`}},
		{`SELECT LOWER(c.name) lower, c.price / 2 AS half FROM c`, []string{`{"lower":"tent","half":60}`, `{"lower":"stove","half":22.75}`}},
		{`SELECT 1 AS a, 2 AS b`, []string{`{"a":1,"b":2}`}},
		{`SELECT undefined`, []string{`{}`}},
		{`SELECT VALUE undefined`, nil},
	})
}

func TestOrderBy(t *testing.T) {
	checkQueries(t, products, []queryCase{
		{`SELECT VALUE c.name FROM c ORDER BY c.name`, []string{`"Boots"`, `"Lamp"`, `"Map"`, `"Rope"`, `"Stove"`, `"Tent"`}},
		{`SELECT VALUE c.name FROM c ORDER BY c.name ASC`, []string{`"Boots"`, `"Lamp"`, `"Map"`, `"Rope"`, `"Stove"`, `"Tent"`}},
		{`SELECT VALUE c.name FROM c ORDER BY c.name DESC`, []string{`"Tent"`, `"Stove"`, `"Rope"`, `"Map"`, `"Lamp"`, `"Boots"`}},

		// Types are in the order null, boolean, number, string; undefined is left out.
		{`SELECT VALUE c.id FROM c ORDER BY c.price`, []string{`"p5"`, `"p2"`, `"p1"`, `"p3"`, `"p4"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.price DESC`, []string{`"p4"`, `"p3"`, `"p1"`, `"p2"`, `"p5"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.price ?? 0`, []string{`"p5"`, `"p6"`, `"p2"`, `"p1"`, `"p3"`, `"p4"`}},

		// Several expressions sort one after the other, and undefined first.
		{`SELECT VALUE c.id FROM c ORDER BY c.category, c.price`, []string{`"p6"`, `"p5"`, `"p2"`, `"p1"`, `"p3"`, `"p4"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.category DESC, c.price DESC`, []string{`"p4"`, `"p3"`, `"p1"`, `"p2"`, `"p5"`, `"p6"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.category DESC, c.name ASC`, []string{`"p3"`, `"p4"`, `"p2"`, `"p1"`, `"p5"`, `"p6"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.none, c.id DESC`, []string{`"p6"`, `"p5"`, `"p4"`, `"p3"`, `"p2"`, `"p1"`}},

		{`SELECT VALUE c.id FROM c WHERE c.price = 120 ORDER BY c.name`, []string{`"p3"`, `"p1"`}},
		{`SELECT TOP 2 VALUE c.id FROM c ORDER BY c.name`, []string{`"p3"`, `"p6"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.name OFFSET 1 LIMIT 2`, []string{`"p6"`, `"p4"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.name OFFSET 5 LIMIT 5`, []string{`"p1"`}},
		{`SELECT VALUE c.id FROM c ORDER BY LENGTH(c.name), c.name`, []string{`"p4"`, `"p6"`, `"p5"`, `"p1"`, `"p3"`, `"p2"`}},
		{`SELECT c.name, c.price FROM c WHERE c.category = "camp" ORDER BY c.price`, []string{`{"name":"Stove","price":45.5}`, `{"name":"Tent","price":120}`}},
		{`SELECT VALUE [c.id, t] FROM c JOIN t IN c.tags ORDER BY t`, []string{`["p3","brown"]`, `["p1","green"]`, `["p1","new"]`, `["p2","new"]`, `["p3","new"]`, `["p3","sale"]`}},
		{`SELECT VALUE c.none FROM c ORDER BY c.id`, nil},
		{`SELECT VALUE s.n FROM s IN c.stock ORDER BY s.n DESC`, []string{`8`, `5`, `3`, `0`}},
		{`SELECT VALUE c.id FROM c ORDER BY EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = "sale") DESC, c.id`, []string{`"p3"`, `"p1"`, `"p2"`, `"p4"`, `"p5"`, `"p6"`}},
	})
}

func TestGroupBy(t *testing.T) {
	checkQueries(t, products, []queryCase{
		{`SELECT c.category FROM c GROUP BY c.category`, []string{`{"category":"camp"}`, `{"category":"walk"}`, `{"category":null}`, `{}`}},
		{`SELECT c.category, COUNT(1) AS n FROM c GROUP BY c.category`,
			[]string{`{"category":"camp","n":2}`, `{"category":"walk","n":2}`, `{"category":null,"n":1}`, `{"n":1}`}},
		{`SELECT VALUE {"c": c.category, "n": COUNT(1)} FROM c WHERE IS_STRING(c.category) GROUP BY c.category`, []string{`{"c":"camp","n":2}`, `{"c":"walk","n":2}`}},
		{`SELECT c.category, MIN(c.price) AS low, MAX(c.price) AS high FROM c GROUP BY c.category`,
			[]string{`{"category":"camp","low":45.5,"high":120}`, `{"category":"walk","low":120,"high":"free"}`, `{"category":null,"low":null,"high":null}`, `{}`}},
		{`SELECT c.category, SUM(c.price) AS s, AVG(c.price) AS a FROM c GROUP BY c.category`,
			[]string{`{"category":"camp","s":165.5,"a":82.75}`, `{"category":"walk"}`, `{"category":null}`, `{"s":0}`}},
		{`SELECT COUNT(1) AS n FROM c GROUP BY c.category, c.price`, []string{`{"n":1}`, `{"n":1}`, `{"n":1}`, `{"n":1}`, `{"n":1}`, `{"n":1}`}},
		{`SELECT c.price, COUNT(1) AS n FROM c GROUP BY c.price`,
			[]string{`{"price":120,"n":2}`, `{"price":45.5,"n":1}`, `{"price":"free","n":1}`, `{"price":null,"n":1}`, `{"n":1}`}},
		{`SELECT t, COUNT(1) AS n FROM t IN c.tags GROUP BY t`, []string{`{"t":"green","n":1}`, `{"t":"new","n":3}`, `{"t":"brown","n":1}`, `{"t":"sale","n":1}`}},
		{`SELECT s.at, SUM(s.n) AS n FROM c JOIN s IN c.stock GROUP BY s.at`, []string{`{"at":"Bern","n":11}`, `{"at":"Oslo","n":5}`}},
		{`SELECT LEFT(c.name, 1) AS first, COUNT(1) AS n FROM c WHERE c.id < "p4" GROUP BY LEFT(c.name, 1)`,
			[]string{`{"first":"T","n":1}`, `{"first":"S","n":1}`, `{"first":"B","n":1}`}},
		{`SELECT VALUE COUNT(1) FROM c GROUP BY IS_NUMBER(c.price)`, []string{`3`, `3`}},
		{`SELECT TOP 2 VALUE c.category FROM c GROUP BY c.category`, []string{`"camp"`, `"walk"`}},
		{`SELECT VALUE c.category FROM c GROUP BY c.category OFFSET 1 LIMIT 1`, []string{`"walk"`}},
		{`SELECT DISTINCT COUNT(1) AS n FROM c GROUP BY c.category`, []string{`{"n":2}`, `{"n":1}`}},
		{`SELECT c.tags, COUNT(1) AS n FROM c WHERE IS_ARRAY(c.stock) GROUP BY c.tags`,
			[]string{`{"tags":["green","new"],"n":1}`, `{"tags":["new"],"n":1}`, `{"tags":["brown","new","sale"],"n":1}`, `{"n":1}`}},
		{`SELECT 1 AS one, c.category FROM c WHERE c.id = "p1" GROUP BY c.category`, []string{`{"one":1,"category":"camp"}`}},
		{`SELECT c.category FROM c WHERE c.id = "none" GROUP BY c.category`, nil},
	})
}

func TestDistinct(t *testing.T) {
	checkQueries(t, products, []queryCase{
		{`SELECT DISTINCT VALUE c.category FROM c`, []string{`"camp"`, `"walk"`, `null`}},
		{`SELECT DISTINCT c.category FROM c`, []string{`{"category":"camp"}`, `{"category":"walk"}`, `{"category":null}`, `{}`}},
		{`SELECT DISTINCT c.category, c.price FROM c WHERE c.category = "camp"`, []string{`{"category":"camp","price":120}`, `{"category":"camp","price":45.5}`}},
		{`SELECT DISTINCT VALUE t FROM t IN c.tags`, []string{`"green"`, `"new"`, `"brown"`, `"sale"`}},
		{`SELECT DISTINCT VALUE c.price FROM c ORDER BY c.price DESC`, []string{`"free"`, `120`, `45.5`, `null`}},
		{`SELECT DISTINCT TOP 2 VALUE t FROM t IN c.tags`, []string{`"green"`, `"new"`}},
		{`SELECT DISTINCT VALUE t FROM t IN c.tags OFFSET 1 LIMIT 2`, []string{`"new"`, `"brown"`}},
		{`SELECT DISTINCT VALUE c.tags[0] = "new" FROM c`, []string{`false`, `true`}},
		{`SELECT DISTINCT VALUE x FROM x IN (SELECT VALUE [1, 1.0, "1", true, {"a": 1, "b": 2}, {"b": 2, "a": 1}, [1], [1], null])`,
			[]string{`1`, `"1"`, `true`, `{"a":1,"b":2}`, `[1]`, `null`}},
		{`SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE t FROM t IN c.tags)`, []string{`4`}},
	})
}

func TestTopAndOffsetLimit(t *testing.T) {
	checkQueries(t, products, []queryCase{
		{`SELECT TOP 1 VALUE c.id FROM c`, []string{`"p1"`}},
		{`SELECT TOP 9 VALUE c.id FROM c WHERE c.price = 120`, []string{`"p1"`, `"p3"`}},
		{`SELECT TOP 0 * FROM c`, nil},
		{`SELECT TOP 1 VALUE c.none FROM c`, nil},
		{`SELECT TOP 1 VALUE c.category FROM c WHERE c.id > "p4"`, []string{`null`}},
		{`SELECT TOP 3 VALUE t FROM t IN c.tags`, []string{`"green"`, `"new"`, `"new"`}},
		{`SELECT VALUE c.id FROM c OFFSET 0 LIMIT 1`, []string{`"p1"`}},
		{`SELECT VALUE c.id FROM c OFFSET 4 LIMIT 9`, []string{`"p5"`, `"p6"`}},
		{`SELECT VALUE c.id FROM c OFFSET 6 LIMIT 1`, nil},
		{`SELECT VALUE c.id FROM c OFFSET 1 LIMIT 0`, nil},
		{`SELECT VALUE c.id FROM c WHERE c.price > 0 OFFSET 1 LIMIT 1`, []string{`"p2"`}},
		{`SELECT VALUE t FROM t IN c.tags OFFSET 2 LIMIT 2`, []string{`"new"`, `"brown"`}},
		{`SELECT VALUE COUNT(1) FROM (SELECT TOP 4 * FROM c)`, []string{`4`}},
		{`SELECT VALUE COUNT(1) FROM (SELECT * FROM c OFFSET 4 LIMIT 4)`, []string{`2`}},
		{`SELECT VALUE ARRAY(SELECT TOP 1 VALUE t FROM t IN c.tags) FROM c WHERE IS_DEFINED(c.tags)`, []string{`["green"]`, `["new"]`, `["brown"]`, `[]`}},
		{`SELECT VALUE ARRAY(SELECT VALUE t FROM t IN c.tags OFFSET 1 LIMIT 1) FROM c WHERE IS_DEFINED(c.tags)`, []string{`["new"]`, `[]`, `["new"]`, `[]`}},
	})
}
