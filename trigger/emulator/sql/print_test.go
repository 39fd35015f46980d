package sql

import "testing"

// TestCanonicalForm shows how queries are printed.
func TestCanonicalForm(t *testing.T) {
	for query, want := range map[string]string{
		// Keywords are in upper case, and clauses are one space apart.
		"select\n*\tfrom c -- all": `SELECT * FROM c`,
		`SELECT--x
VALUE--/* y */
c.a FROM c`: `SELECT VALUE c.a FROM c`,
		`SELECT c.a a, c.b AS 'b' FROM c`:            `SELECT c.a AS a, c.b AS b FROM c`,
		`SELECT c['order'] FROM c`:                   `SELECT c["order"] FROM c`,
		`SELECT c["a"]["b c"][0]["d"] FROM c`:        `SELECT c.a["b c"][0].d FROM c`,
		`SELECT * FROM root c`:                       `SELECT * FROM root AS c`,
		`SELECT * FROM c.a["b"]`:                     `SELECT * FROM c.a.b`,
		`SELECT * FROM c['a b'] x`:                   `SELECT * FROM c["a b"] AS x`,
		`SELECT VALUE x FROM x in c.a`:               `SELECT VALUE x FROM x IN c.a`,
		`SELECT VALUE x FROM (select value 1) x`:     `SELECT VALUE x FROM (SELECT VALUE 1) AS x`,
		`SELECT top @n * FROM c`:                     `SELECT TOP @n * FROM c`,
		`SELECT * FROM c offset 007 limit 1e1`:       `SELECT * FROM c OFFSET 7 LIMIT 10`,
		`SELECT * FROM c order by c.a asc, c.b DESC`: `SELECT * FROM c ORDER BY c.a ASC, c.b DESC`,
		`SELECT VALUE Abs(1)`:                        `SELECT VALUE ABS(1)`,
		`SELECT VALUE 0x10`:                          `SELECT VALUE 16`,
		`SELECT VALUE 1e2`:                           `SELECT VALUE 1e2`,
		`SELECT VALUE 'a"b'`:                         `SELECT VALUE "a\"b"`,
		`SELECT VALUE (true AND false) OR true`:      `SELECT VALUE true AND false OR true`,
		`SELECT VALUE true AND (false OR true)`:      `SELECT VALUE true AND (false OR true)`,
		`SELECT VALUE true AND (false AND true)`:     `SELECT VALUE true AND (false AND true)`,
		`SELECT VALUE (1 BETWEEN 0 AND 2) = true`:    `SELECT VALUE (1 BETWEEN 0 AND 2) = true`,
		`SELECT VALUE ((1) + (2)) = (3)`:             `SELECT VALUE 1 + 2 = 3`,
		`SELECT VALUE (1 & 2) + 3`:                   `SELECT VALUE 1 & 2 + 3`,
		`SELECT VALUE 1 & (2 + 3)`:                   `SELECT VALUE 1 & (2 + 3)`,
		`SELECT VALUE 2 * (3 % 4)`:                   `SELECT VALUE 2 * (3 % 4)`,
		`SELECT VALUE (1 << 2) << 3`:                 `SELECT VALUE 1 << 2 << 3`,
		`SELECT VALUE NOT (true) = false`:            `SELECT VALUE NOT true = false`,
		`SELECT VALUE (c.a).b FROM c`:                `SELECT VALUE c.a.b FROM c`,
		`SELECT VALUE [1, 2][0]`:                     `SELECT VALUE [1, 2][0]`,
		`SELECT VALUE {a: 1}["a"]`:                   `SELECT VALUE {"a": 1}.a`,
		`SELECT VALUE (SELECT VALUE 1)`:              `SELECT VALUE (SELECT VALUE 1)`,
		`SELECT VALUE array (SELECT VALUE 1)`:        `SELECT VALUE ARRAY(SELECT VALUE 1)`,
		`SELECT VALUE exists (SELECT VALUE 1)`:       `SELECT VALUE EXISTS(SELECT VALUE 1)`,
		`SELECT VALUE true ? 1 : (false ? 2 : 3)`:    `SELECT VALUE true ? 1 : false ? 2 : 3`,
		`SELECT VALUE (true ?? false) ? 1 : 2`:       `SELECT VALUE true ?? false ? 1 : 2`,
		`SELECT VALUE c.a not in (1,2) FROM c`:       `SELECT VALUE c.a NOT IN (1, 2) FROM c`,
		`SELECT VALUE @p.a[@q]`:                      `SELECT VALUE @p.a[@q]`,

		`select distinct top 3 c.a x,c["b"],c['c d'] as "e f" from root as c where((c.a=1))`: `SELECT DISTINCT TOP 3 c.a AS x, c.b, c["c d"] AS "e f" FROM root AS c WHERE c.a = 1`,
		`SELECT VALUE (1+2)*3-(4-5)`:                      `SELECT VALUE (1 + 2) * 3 - (4 - 5)`,
		`SELECT VALUE 1+(2*3)`:                            `SELECT VALUE 1 + 2 * 3`,
		`SELECT VALUE (true OR false) AND NOT (true)`:     `SELECT VALUE (true OR false) AND NOT true`,
		`SELECT VALUE NOT (1 = 2)`:                        `SELECT VALUE NOT (1 = 2)`,
		`SELECT VALUE -(-1)`:                              `SELECT VALUE - -1`,
		`SELECT VALUE -(1)`:                               `SELECT VALUE - (1)`,
		`SELECT VALUE - - c.a FROM c`:                     `SELECT VALUE - -c.a FROM c`,
		`SELECT VALUE c.a AS b FROM c`:                    `SELECT VALUE c.a FROM c`,
		`SELECT VALUE 0..x`:                               `SELECT VALUE (0).x`,
		`SELECT VALUE +1`:                                 `SELECT VALUE + (1)`,
		`SELECT VALUE ~"a"`:                               `SELECT VALUE ~ "a"`,
		`SELECT VALUE (-1).x`:                             `SELECT VALUE (-1).x`,
		`SELECT VALUE (1 ?? 2) ?? 3`:                      `SELECT VALUE (1 ?? 2) ?? 3`,
		`SELECT VALUE 1 ?? (2 ?? 3)`:                      `SELECT VALUE 1 ?? 2 ?? 3`,
		`SELECT VALUE (true ? 1 : 2) ? 3 : (4 ? 5 : 6)`:   `SELECT VALUE (true ? 1 : 2) ? 3 : 4 ? 5 : 6`,
		`SELECT VALUE (1 IN (2)) IN (3, (4))`:             `SELECT VALUE (1 IN (2)) IN (3, 4)`,
		`SELECT VALUE (1 = 2) = (3 = 4)`:                  `SELECT VALUE 1 = 2 = (3 = 4)`,
		`SELECT VALUE "a"||("b"||"c")`:                    `SELECT VALUE "a" || ("b" || "c")`,
		`SELECT VALUE 1 <> 2`:                             `SELECT VALUE 1 != 2`,
		`SELECT VALUE {a:[1,{'b':null}],"c d":undefined}`: `SELECT VALUE {"a": [1, {"b": null}], "c d": undefined}`,
		`SELECT VALUE count(1) FROM c JOIN t IN c["a b"][0].x JOIN (SELECT 1) AS s WHERE exists(SELECT * FROM c) AND array(SELECT * FROM t)=[]`: `SELECT VALUE COUNT(1) FROM c JOIN t IN c["a b"][0].x JOIN (SELECT 1) AS s WHERE EXISTS(SELECT * FROM c) AND ARRAY(SELECT * FROM t) = []`,
		`SELECT c.a FROM c group by c.a, c.b+1 offset 1 limit @n`:                                                                               `SELECT c.a FROM c GROUP BY c.a, c.b + 1 OFFSET 1 LIMIT @n`,
		`SELECT * FROM c WHERE c.a not between 1 and 2 and c.b not like 'x' escape '!' order by c.a, c.b desc`:                                  `SELECT * FROM c WHERE c.a NOT BETWEEN 1 AND 2 AND c.b NOT LIKE "x" ESCAPE "!" ORDER BY c.a, c.b DESC`,
	} {
		q, err := Parse(query)
		if err != nil || q.String() != want {
			t.Errorf("%s\nprints as %v, %v\nwant      %s", query, q, err, want)
		}
	}
}
