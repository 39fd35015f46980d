// Verifies webhooks with the package standardwebhooks of npm. Standard input has one
// JSON object {secret, headers, body} on each line; each gets a line of output: the
// type of the payload, or "refused" and the error.
const { createRequire } = require("node:module");
const { createInterface } = require("node:readline");
const { Webhook } = createRequire(process.argv[2] + "/")("standardwebhooks");

createInterface({ input: process.stdin }).on("line", (line) => {
  const { secret, headers, body } = JSON.parse(line);
  try {
    console.log(new Webhook(secret).verify(body, headers).type);
  } catch (e) {
    console.log("refused: " + e.message);
  }
});
