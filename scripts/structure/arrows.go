package main

import (
	"cmp"
	"go/token"
	"maps"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// backUpLimit is the largest number of arrows of function/app that run back up.
const backUpLimit = 25

// largestCircle is the largest number of files in a circle for which the best order is
// computed. The cost doubles with each file.
const largestCircle = 20

const appPath = "halley/function/app"

// appRooms are the rooms of function/app from top to bottom: a room uses those below it.
var appRooms = strings.Fields(`new azurestorage otel . internal/hosttest internal/apptest
	internal/standin/azurestorage internal/standin/leaderboard internal/standin/push
	internal/command internal/verify/hosted internal/verify internal/scaffold internal/dev
	internal/lambda internal/functions internal/packaging internal/operatorpage internal/page
	internal/operate internal/hosting internal/metrics internal/account internal/settings
	internal/text`)

// arrow leads from a file to another one that declares a name which the first one uses.
type arrow struct{ from, to string }

// fileGraph holds the files of packages and the arrows between them, with one example of a
// name for each.
type fileGraph struct {
	rooms  map[string]string // of each file, its package's path below function/app
	arrows map[arrow]string
}

func newFileGraph(pkgs []*packages.Package) *fileGraph {
	g := &fileGraph{rooms: map[string]string{}, arrows: map[arrow]string{}}
	for _, pkg := range pkgs {
		for _, file := range pkg.Syntax {
			g.rooms[fileOf(pkg, file.Pos())] = roomOf(pkg)
		}
	}
	for _, pkg := range pkgs {
		for id, used := range pkg.TypesInfo.Uses {
			if !used.Pos().IsValid() {
				continue // of the language itself
			}
			a := arrow{fileOf(pkg, id.Pos()), fileOf(pkg, used.Pos())}
			if name, known := g.arrows[a]; a.from != a.to && g.rooms[a.to] != "" && (!known || id.Name < name) {
				g.arrows[a] = id.Name
			}
		}
	}
	return g
}

// roomOf returns the path of a package below function/app, "." for the package itself.
func roomOf(pkg *packages.Package) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(pkg.PkgPath, appPath), "/"), ".")
}

func fileOf(pkg *packages.Package, pos token.Pos) string { return pkg.Fset.Position(pos).Filename }

// backUp returns the arrows that run back up, sorted: between rooms those against the order
// of appRooms. Inside a room they are the fewest without which its files have an order, too.
func (g *fileGraph) backUp() (between, inside []arrow) {
	neighbours := map[string][]string{} // in the same room
	for a := range g.arrows {
		switch from, to := g.rooms[a.from], g.rooms[a.to]; {
		case from == to:
			neighbours[a.from] = append(neighbours[a.from], a.to)
		case slices.Index(appRooms, from) >= slices.Index(appRooms, to):
			between = append(between, a)
		}
	}
	files := slices.Sorted(maps.Keys(g.rooms))
	for _, circle := range circles(files, func(file string) []string { return neighbours[file] }) {
		slices.Sort(circle)
		inside = append(inside, g.againstOrder(circle)...)
	}
	slices.SortFunc(between, compareArrows)
	slices.SortFunc(inside, compareArrows)
	return between, inside
}

func compareArrows(a, b arrow) int {
	return cmp.Or(strings.Compare(a.from, b.from), strings.Compare(a.to, b.to))
}

// againstOrder returns the arrows against the best order of the files of a circle. If there
// are too many files, all arrows between them count.
func (g *fileGraph) againstOrder(files []string) (against []arrow) {
	position := map[string]int{}
	if len(files) <= largestCircle {
		for i, file := range g.bestOrder(files) {
			position[file] = i
		}
	}
	for _, from := range files {
		for _, to := range files {
			if g.arrows[arrow{from, to}] != "" && position[from] >= position[to] {
				against = append(against, arrow{from, to})
			}
		}
	}
	return against
}

// bestOrder returns the order of the files, from top to bottom, with the fewest arrows back
// up. For each set of files it computes the fewest arrows back up inside the set, and the
// file that is then on top.
func (g *fileGraph) bestOrder(files []string) (order []string) {
	users := make([]uint32, len(files)) // of each file, as a set
	for to := range files {
		for from := range files {
			if g.arrows[arrow{files[from], files[to]}] != "" {
				users[to] |= 1 << from
			}
		}
	}
	type best struct{ against, top int }
	bottoms := make([]best, 1<<len(files))
	for set := 1; set < len(bottoms); set++ {
		bottoms[set].against = len(files) * len(files)
		for top := range files {
			if set&(1<<top) == 0 {
				continue
			}
			rest := set &^ (1 << top)
			against := bottoms[rest].against + bits.OnesCount32(users[top]&uint32(rest))
			if against < bottoms[set].against {
				bottoms[set] = best{against, top}
			}
		}
	}
	for set := len(bottoms) - 1; set > 0; set &^= 1 << bottoms[set].top {
		order = append(order, files[bottoms[set].top])
	}
	return order
}

// checkArrows prints the files of function/app, the arrows between them, and those that run
// back up, and compares these with the limit.
func checkArrows(p printer, list bool) (passed bool, err error) {
	pkgs, err := loadPackages(p.root, []string{"./function/app/...", appPath + "/azurestorage", appPath + "/otel"})
	if err != nil {
		return false, err
	}
	g := newFileGraph(pkgs)
	for _, pkg := range pkgs {
		if !slices.Contains(appRooms, roomOf(pkg)) {
			p.printf("arrows: the order of rooms lacks %s\n", pkg.PkgPath)
			return false, nil
		}
	}
	between, inside := g.backUp()
	passed = len(between)+len(inside) <= backUpLimit
	if list || !passed {
		for _, a := range slices.Concat(between, inside) {
			p.printf("%s uses %s of %s\n", p.relative(a.from), g.arrows[a], filepath.Base(a.to))
		}
	}
	p.printf("arrows: %d files in %d rooms, %d arrows; back up: %d between rooms, %d inside rooms, at most %d\n",
		len(g.rooms), len(pkgs), len(g.arrows), len(between), len(inside), backUpLimit)
	return passed, nil
}
