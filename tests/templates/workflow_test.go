package templates

import (
	"path/filepath"
	"testing"
)

const actionlint = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"

func checkWorkflow(t *testing.T, app string) []string {
	t.Helper()
	return lint(t, "go", "run", actionlint, "-no-color", "-shellcheck=", "-pyflakes=", filepath.Join(app, ".github", "workflows", "ci.yml"))
}

func TestWorkflowHasNoFindings(t *testing.T) {
	for _, template := range []string{"minimal", "azd", "container", "lambda"} {
		passes(t, template, each(checkWorkflow))
	}
}

func TestWorkflowFaultsAreFound(t *testing.T) {
	const file = ".github/workflows/ci.yml"
	finds(t, "minimal", each(checkWorkflow), []fault{
		{file, "runs-on: ubuntu-latest", "runs-on: ubuntu-newest", `label "ubuntu-newest" is unknown`},
		{file, "secrets.HALLEY_TOKEN || github.token", "secrets.HALLEY_TOKEN || github.tokens", `property "tokens" is not defined`},
		{file, "  contents: read", "  content: read", `unknown permission scope "content"`},
		{file, "go-version-file:", "go-version-files:", `input "go-version-files" is not defined`},
		{file, "pull_request:", "pull_requests:", `unknown Webhook event "pull_requests"`},
		{file, "      - run: go vet ./...\n", "      - run: go vet ./...\n        uses: actions/checkout@v4\n", "run"},
	})
}
