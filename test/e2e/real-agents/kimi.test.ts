import { describeRealAgent } from "./real-agent.ts";

describeRealAgent({
  profile: "kimi",
  command: "kimi",
  homeVariable: "KIMI_CODE_HOME",
  env: {},
  config: (baseUrl) => `default_model = "fake"

[providers.fake]
type = "openai"
base_url = "${baseUrl}"
api_key = "key-of-the-fake-model"

[models.fake]
provider = "fake"
model = "fake"
max_context_size = 100000

[loop_control]
max_attempts_per_step = 1
`,
  // It ends its turn without a message.
  limited: /^provider_(rate_limited|unreachable)$/,
});
