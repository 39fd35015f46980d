// Package lambda is the contract with AWS Lambda: one invocation is one drain.
package lambda

import (
	"context"
	"errors"
	"sync"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"go.uber.org/zap"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/redact"
)

// lambdaFunction drains once per invocation and ignores the event: a schedule of
// EventBridge is enough.
type lambdaFunction struct {
	app     *hosting.App
	log     *zap.Logger
	drainer *hosting.Drainer

	first sync.Once
	err   error // of fit, in the first invocation
}

// lambdaResult is the answer to an invocation, as JSON.
type lambdaResult struct {
	trigger.Summary
	Note string `json:"note,omitempty"` // time was up, or another drain was running
}

// Serve is the Lambda function. It returns an exit code only if it cannot
// serve, for example when settings are refused before the first invocation.
func Serve(ctx context.Context, p *hosting.Program) int {
	log := hosting.NewLogger("info")
	s, err := settings.Load(p.Source)
	if err == nil {
		err = s.Durable("AWS Lambda")
	}
	if err == nil && s.App.Mode != settings.ModeTimer {
		err = errors.New("HALLEY_MODE=" + string(s.App.Mode) + " cannot work under AWS Lambda, where each invocation drains all ranges: remove it")
	}
	if err != nil {
		log.Error("settings refused", zap.Error(err))
		return 1
	}
	log = hosting.NewLogger(s.App.LogLevel)
	s.WarnOfDisks("AWS Lambda", log)
	a, err := hosting.Open(ctx, s, hosting.Options{Grace: time.Duration(s.App.StopGrace), Telemetry: p.Telemetry}, log)
	if err != nil {
		log.Error("could not open the functions", zap.Error(err))
		return 1
	}
	log.Info("Lambda function started", zap.String("version", p.Version))
	awslambda.StartWithOptions(newLambdaFunction(a, log).invoke, awslambda.WithContext(ctx))
	return 1
}

func newLambdaFunction(a *hosting.App, log *zap.Logger) *lambdaFunction {
	return &lambdaFunction{app: a, log: log, drainer: &hosting.Drainer{Drain: a.Drain}}
}

// invoke drains until a margin before the invocation's deadline.
func (l *lambdaFunction) invoke(ctx context.Context) (lambdaResult, error) {
	limit := hosting.AssumedTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	l.first.Do(func() { l.err = l.fit(limit) })
	if l.err != nil {
		return lambdaResult{}, l.err
	}
	log := l.log
	if c, ok := lambdacontext.FromContext(ctx); ok {
		log = log.With(zap.String("invocation", c.AwsRequestID))
	}
	r := l.drainer.Run(ctx, limit)
	if err := r.Failure(); err != nil {
		log.Error("invocation failed", zap.Error(err))
		return lambdaResult{}, redact.Error(err)
	}
	log.Info("invocation answered", zap.Reflect("summary", r.Summary), zap.String("note", r.Note()))
	return lambdaResult{r.Summary, r.Note()}, nil
}

// fit shortens the grace of running handlers if the function's timeout demands it.
// Only an invocation knows that timeout.
func (l *lambdaFunction) fit(limit time.Duration) error {
	if grace := hosting.Margin(limit) / 3; grace < time.Duration(l.app.Settings.App.StopGrace) {
		return l.app.MakeHosts(grace)
	}
	return nil
}
