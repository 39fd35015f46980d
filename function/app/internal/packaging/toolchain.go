package packaging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// BuildTag is the build tag of packaged binaries. It leaves out the commands that a
// deployed app does not need.
const BuildTag = "nodev"

// kept are the settings of Go that say how it finds modules and itself.
var kept = []string{
	"GOAUTH", "GOCACHE", "GOINSECURE", "GOMODCACHE", "GONOPROXY", "GONOSUMDB", "GOPATH",
	"GOPRIVATE", "GOPROXY", "GOSUMDB", "GOTMPDIR", "GOTOOLCHAIN", "GOVCS",
}

// compilers are variables that name other tools to go build.
var compilers = []string{"CC", "CXX", "AR", "FC", "PKG_CONFIG", "GCCGO"}

// toolchain runs the go command in the app's module.
type toolchain struct {
	ctx    context.Context
	root   string
	env    []string // of the go command
	stderr io.Writer
}

// newToolchain prepares an environment in which only source, platform and Go itself
// decide on the bytes of a binary.
func newToolchain(ctx context.Context, root string, p platform, stderr io.Writer) (*toolchain, error) {
	t := &toolchain{ctx: ctx, root: root, stderr: stderr}
	t.env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(variable), "=")
		ofGo := strings.HasPrefix(name, "GO") || strings.HasPrefix(name, "CGO_") || slices.Contains(compilers, name)
		return ofGo && name != "GOENV" && !slices.Contains(kept, name)
	})
	out, err := t.run(append([]string{"env", "-json", "GOVERSION"}, kept...)...)
	if err != nil {
		return nil, err
	}
	var settings map[string]string
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	for _, name := range kept {
		t.env = append(t.env, name+"="+settings[name])
	}
	t.env = append(t.env, "GOENV=off", "GOWORK=off", "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+p.arch, "GOEXPERIMENT="+experiment(settings["GOVERSION"], p.arch))
	return t, nil
}

// experiment is the GOEXPERIMENT with which trigger/cosmos splits pages by AVX2. An app
// that runs on a processor without it splits them eight bytes at a time. A Go release
// that trigger/cosmos does not know gets none.
func experiment(version, arch string) string {
	if arch == "amd64" && (version == "go1.26" || strings.HasPrefix(version, "go1.26.")) {
		return "simd"
	}
	return ""
}

// run runs the go command and returns its output. The command's messages go to stderr.
func (t *toolchain) run(args ...string) ([]byte, error) {
	cmd := exec.CommandContext(t.ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = t.root, t.env, t.stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("the go command is not in PATH: install Go, https://go.dev/doc/install")
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	return out, nil
}

// platform is an operating system and a processor, as Go names them.
type platform struct{ system, arch string }

// Tags of builds: net/rpc, which AWS Lambda no longer uses, is left out of all.
const (
	releaseTags = "lambda.norpc"
	deployTags  = releaseTags + "," + BuildTag
)

// coldCode are packages whose code runs when an app starts, when it connects, for its answers
// to operators, or next to a request for each call: the compiler inlines nothing into it,
// which saves 400 kB. scripts/check builds with the same.
var coldCode = []string{
	"google.golang.org/protobuf/...", "github.com/prometheus/...", "github.com/spf13/...", "github.com/AzureAD/...", "halley/function/app/...",
	"go.uber.org/...", "github.com/aws/...", "github.com/kelseyhightower/...", "halley/trigger/deadletter/...",
	"halley/trigger/internal/lease/...", "github.com/Azure/azure-sdk-for-go/sdk/azidentity/...", "golang.org/x/net/...", "golang.org/x/text/...",
	"regexp/...", "crypto/x509/...", "encoding/asn1/...", "crypto/tls/...", "log/slog/...", "text/template/...", "html/template/...",
	"net/url/...", "mime/...", "math/big/...", "halley/trigger/leases/...", "halley/trigger/stall/...", "halley/trigger/units/...",
	"vendor/golang.org/x/net/...", "vendor/golang.org/x/text/...", "vendor/golang.org/x/crypto/...",
	"encoding/xml/...", "compress/...", "archive/zip/...", "text/tabwriter/...", "halley/trigger/redact/...", "halley/trigger/emulator/sql/...",
	"github.com/golang-jwt/...", "github.com/google/uuid/...", "github.com/Azure/azure-sdk-for-go/sdk/internal/...", "github.com/Azure/azure-sdk-for-go/sdk/azcore/...", "os/exec/...",
	"crypto/hpke/...", "crypto/elliptic/...", "crypto/ecdsa/...", "crypto/rsa/...", "crypto/ed25519/...", "crypto/ecdh/...", "encoding/pem/...", "net", "net/netip/...", "net/http/...", "path/filepath/...", "golang.org/x/sys/...",
	"fmt/...", "os/...", "time", "internal/sync", "errors/...", "log/...", "html/...", "math/rand/...", "crypto/internal/fips140/edwards25519/...", "crypto/internal/fips140/nistec/...", "crypto/internal/fips140/ed25519/...", "crypto/internal/fips140/rsa/...", "crypto/internal/fips140/ecdsa/...", "crypto/internal/fips140/sha3/...", "crypto/internal/fips140/bigmod/...", "io/fs/...", "syscall/...", "encoding/binary/...", "encoding/hex/...", "runtime/debug/...", "runtime/metrics/...",
	"context", "path", "unicode/...", "hash/...",
}

// binary builds the main package. If the app is in a Git repository, the binary has the
// version of the commit.
func (t *toolchain) binary(main, tags, target string) error {
	git := exec.CommandContext(t.ctx, "git", "rev-parse", "-q", "--verify", "HEAD")
	git.Dir = t.root
	build := []string{"build", "-mod=readonly", "-trimpath", fmt.Sprintf("-buildvcs=%t", git.Run() == nil), "-tags", tags, "-ldflags", "-s -w", "-o", target}
	for _, packages := range coldCode {
		build = append(build, "-gcflags", packages+"=-l")
	}
	_, err := t.run(append(build, main)...)
	return err
}
