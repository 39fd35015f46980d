"""Verifies webhooks with the package standardwebhooks of PyPI, as verify.js does."""

import json
import sys

from standardwebhooks.webhooks import Webhook

for line in sys.stdin:
    message = json.loads(line)
    try:
        payload = Webhook(message["secret"]).verify(message["body"], message["headers"])
        print(payload["type"])
    except Exception as e:
        print(f"refused: {e}")
