package apps

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// secretTokens is a credential whose fields hold a secret.
type secretTokens struct{ secret string }

func (s secretTokens) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: s.secret}, nil
}

// The log of an app, which package trigger does not know, shows no credential.
func TestCredentialIsRedactedInAppLogs(t *testing.T) {
	byKey, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []cosmos.Credential{byKey, cosmos.TokenCredential(secretTokens{"hunter2-of-the-app"})} {
		var out bytes.Buffer
		log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(&out), zap.DebugLevel))
		log.Info("x", zap.Any("a", c), zap.Reflect("b", c), zap.Stringer("c", c), zap.Any("d", &c))
		log.Sugar().Infof("%v %+v", c, struct{ c cosmos.Credential }{c})
		if text := out.String(); !strings.Contains(text, fmt.Sprint(c)) || strings.Contains(text, emulator.Key[:10]) || strings.Contains(text, "hunter2") {
			t.Errorf("the log shows\n%s", text)
		}
	}
}
