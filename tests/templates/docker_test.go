package templates

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// checkDockerfiles parses the Dockerfiles of an app with BuildKit's parser and linter,
// and judges them by rules of the project.
func checkDockerfiles(t *testing.T, app string) (found []string) {
	t.Helper()
	ignored := string(readFile(t, filepath.Join(app, ".dockerignore")))
	for _, path := range files(t, app, "Dockerfile*") {
		name := filepath.Base(path)
		stages, err := parseDockerfile(readFile(t, path), func(rule, message string) {
			found = append(found, fmt.Sprintf("%s: %s: %s", name, rule, message))
		})
		if err != nil {
			found = append(found, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		for _, finding := range imageFindings(stages[len(stages)-1], executable(t, app), ignored) {
			found = append(found, name+": "+finding)
		}
	}
	return found
}

func parseDockerfile(source []byte, report func(rule, message string)) ([]instructions.Stage, error) {
	parsed, err := parser.Parse(bytes.NewReader(source))
	if err != nil {
		return nil, err
	}
	for _, warning := range parsed.Warnings {
		report("parser", warning.Short)
	}
	rules := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) { report(rule, message) }})
	stages, _, err := instructions.Parse(parsed.AST, rules)
	if err == nil && len(stages) == 0 {
		err = errors.New("no stage")
	}
	return stages, err
}

// bases are the images that the templates begin with.
var bases = []string{"gcr.io/distroless/static-debian12:nonroot", "mcr.microsoft.com/azure-functions/base:4"}

// imageFindings judges a stage: its base, copied paths that .dockerignore leaves out,
// and its command, which must run the executable without a shell, as there is none.
func imageFindings(stage instructions.Stage, executable, ignored string) (found []string) {
	if !slices.Contains(bases, stage.BaseName) {
		found = append(found, stage.BaseName+" is not a known image")
	}
	hosted := strings.Contains(stage.BaseName, "azure-functions")
	started := hosted // by the Functions host
	for _, command := range stage.Commands {
		switch command := command.(type) {
		case *instructions.CopyCommand:
			for _, path := range command.SourcePaths {
				if !strings.HasPrefix(path, "dist/app/") || !strings.Contains(ignored, "!dist/app/\n") {
					found = append(found, path+" is left out by .dockerignore")
				}
			}
		case *instructions.EntrypointCommand:
			want := []string{"/app/" + executable, "run"}
			if started = true; command.PrependShell || !slices.Equal(command.CmdLine, want) {
				found = append(found, fmt.Sprintf("the entry point is %q, want %q", command.CmdLine, want))
			}
		case *instructions.EnvCommand:
			for _, pair := range command.Env {
				if !slices.Contains(hostSettings, pair.Key) {
					found = append(found, pair.Key+" is not a known setting")
				}
			}
		}
	}
	if !started {
		found = append(found, "no entry point")
	}
	return found
}

// hostSettings are those of the image of the Functions host.
// https://github.com/Azure/azure-functions-docker
var hostSettings = []string{"AzureWebJobsScriptRoot", "AzureFunctionsJobHost__Logging__Console__IsEnabled", "FUNCTIONS_WORKER_RUNTIME"}

func TestDockerfilesHaveNoFindings(t *testing.T) {
	passes(t, "container", each(checkDockerfiles))
}

func TestDockerfileFaultsAreFound(t *testing.T) {
	const plain, hosted = "Dockerfile", "Dockerfile.functions"
	finds(t, "container", each(checkDockerfiles), []fault{
		// BuildKit's.
		{plain, "ENTRYPOINT", "ENTRYPIONT", "unknown instruction: ENTRYPIONT"},
		{plain, "--chmod=755", "--chmods=755", "unknown flag: --chmods"},
		{plain, ":nonroot", ":nonroot as Static", "FromAsCasing"},
		{hosted, "FUNCTIONS_WORKER_RUNTIME=custom", "FUNCTIONS_WORKER_RUNTIME", "FUNCTIONS_WORKER_RUNTIME"},

		// The project's.
		{plain, `ENTRYPOINT ["/app/shop", "run"]`, "ENTRYPOINT /app/shop run", "the entry point is"},
		{plain, `ENTRYPOINT ["/app/shop", "run"]`, "", "no entry point"},
		{plain, `["/app/shop"`, `["/shop"`, "the entry point is"},
		{plain, "COPY --chmod=755 dist/app/shop", "COPY --chmod=755 dist/shop", "dist/shop is left out by .dockerignore"},
		{plain, "static-debian12:nonroot", "static-debian12:nonrot", "is not a known image"},
		{hosted, "AzureWebJobsScriptRoot", "AzureWebJobsScriptRoots", "AzureWebJobsScriptRoots is not a known setting"},
		{".dockerignore", "!dist/app/\n", "!dist/\n", "is left out by .dockerignore"},
	})
}
