package sql

// statement is one SELECT, the whole query or a subquery.
type statement struct {
	span      span
	distinct  bool
	top       *count
	star      bool
	value     expr   // SELECT VALUE
	items     []item // SELECT list
	from      []source
	where     expr
	groupBy   []expr
	orderBy   []ordering
	undefined bool   // ORDER BY keeps rows without a value; resolve fills it
	offset    *count // with limit
	limit     *count

	aggregates []*call // those of the select list; resolve fills it
}

// item is one entry of a select list.
type item struct {
	expr  expr
	alias string // "" if the query has none
	name  string // of the property in results; resolve fills it
	span  span
	named span // of the alias; of the expression if there is none
}

// source is one collection of the FROM clause.
type source struct {
	alias    string
	named    bool // whether the query has the alias; if not, the path gives it
	iterate  bool // alias IN …: one row per element
	root     *name
	path     []expr     // steps from root: string or number literals
	query    *statement // instead of root and path
	slot     int        // of the alias's value in rows; resolve fills it
	computed *Query     // of the first step, if it is a computed property; resolve fills it
	span     span
}

// ordering is one expression of the ORDER BY clause.
type ordering struct {
	expr       expr
	descending bool
	directed   bool // whether the query says so
}

// count is the number of a TOP, OFFSET or LIMIT: written or a parameter.
type count struct {
	number    int
	parameter *parameter
}

// expr is a scalar expression. Its types are below.
type expr interface {
	eval(r *row) value
	level() int // how tightly it binds; see print.go
	print(p *printer)
	operands() []expr
}

type (
	// literal is a constant.
	literal struct{ value value }

	// parameter is @name.
	parameter struct {
		name string
		slot int // in the parameters of the query
	}

	// name is the alias of a source.
	name struct {
		text string
		slot int // in the row; resolve fills it
		span span
	}

	// property is of.name or of["name"].
	property struct {
		of       expr
		name     string
		computed *Query // not nil if it is a computed property; resolve fills it
	}

	// index is of[by].
	index struct{ of, by expr }

	// unary is + - ~ or NOT.
	unary struct {
		op string
		x  expr
	}

	// binary is an infix operator, AND and OR included.
	binary struct {
		op   *operator
		x, y expr
	}

	// coalesce is x ?? y.
	coalesce struct{ x, y expr }

	// conditional is x ? y : z.
	conditional struct{ x, y, z expr }

	between struct {
		not          bool
		x, low, high expr
	}

	in struct {
		not  bool
		x    expr
		list []expr
	}

	like struct {
		not        bool
		x, pattern expr
		escape     string // one character, or "" for none
	}

	arrayLiteral struct{ items []expr }

	objectLiteral struct {
		names  []string
		values []expr
	}

	// call is a built-in function or an aggregate.
	call struct {
		name      string // in upper case
		function  *function
		aggregate bool
		distinct  bool // COUNT(DISTINCT x)
		slot      int  // of an aggregate in the rows of its statement; resolve fills it
		arguments []expr
		bound     []value // further arguments, from the container's definition; resolve fills them
		span      span
	}

	// subquery is (SELECT …), EXISTS(SELECT …) or ARRAY(SELECT …).
	subquery struct {
		form  string // "", "EXISTS" or "ARRAY"
		query *statement
	}
)

func (e *literal) operands() []expr       { return nil }
func (e *parameter) operands() []expr     { return nil }
func (e *name) operands() []expr          { return nil }
func (e *property) operands() []expr      { return []expr{e.of} }
func (e *index) operands() []expr         { return []expr{e.of, e.by} }
func (e *unary) operands() []expr         { return []expr{e.x} }
func (e *binary) operands() []expr        { return []expr{e.x, e.y} }
func (e *coalesce) operands() []expr      { return []expr{e.x, e.y} }
func (e *conditional) operands() []expr   { return []expr{e.x, e.y, e.z} }
func (e *between) operands() []expr       { return []expr{e.x, e.low, e.high} }
func (e *in) operands() []expr            { return append([]expr{e.x}, e.list...) }
func (e *like) operands() []expr          { return []expr{e.x, e.pattern} }
func (e *arrayLiteral) operands() []expr  { return e.items }
func (e *objectLiteral) operands() []expr { return e.values }
func (e *call) operands() []expr          { return e.arguments }
func (e *subquery) operands() []expr      { return nil }
