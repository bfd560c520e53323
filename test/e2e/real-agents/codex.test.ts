import { describeRealAgent } from "./real-agent.ts";

describeRealAgent({
  profile: "codex",
  command: "codex-acp",
  homeVariable: "CODEX_HOME",
  env: { FAKE_MODEL_KEY: "key-of-the-fake-model" },
  config: (baseUrl) => `model = "fake"
model_provider = "fake"

[model_providers.fake]
name = "fake"
base_url = "${baseUrl}"
wire_api = "responses"
env_key = "FAKE_MODEL_KEY"
request_max_retries = 0
stream_max_retries = 0
`,
  limited: /^provider_rate_limited$/,
});
