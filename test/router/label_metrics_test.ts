import assert from "node:assert/strict";
import type { ModelAddress } from "../../src/router/model_process.ts";
import type { ModelPool } from "../../src/router/model_pool.ts";
import { labelMetrics, RouterMetrics } from "../../src/router/router_metrics.ts";

const SCRAPE = `# HELP x_total Things
# TYPE x_total counter
x_total 3

# HELP y_seconds Times
# TYPE y_seconds histogram
y_seconds_bucket{le="1",route="/a\\"}b"} 2
y_seconds_bucket{le="+Inf",route="/a\\"}b"} 2
y_seconds_sum{route="/a"} 1.5

# HELP z_info What is loaded
# TYPE z_info gauge
z_info{model="own",kind="text"} 1
z_info{base_model="other"} 1
z_info{} 1
`;

Deno.test("labelMetrics() labels each sample and describes each metric once", () => {
  const text = labelMetrics(
    new Map([["a", SCRAPE], ['b"\\', "# TYPE x_total counter\\nx_total 4\n".replace("\\n", "\n")]]),
  );
  assert.equal(
    text,
    `# HELP x_total Things
# TYPE x_total counter
x_total{model="a"} 3
x_total{model="b\\"\\\\"} 4
# HELP y_seconds Times
# TYPE y_seconds histogram
y_seconds_bucket{model="a",le="1",route="/a\\"}b"} 2
y_seconds_bucket{model="a",le="+Inf",route="/a\\"}b"} 2
y_seconds_sum{model="a",route="/a"} 1.5
# HELP z_info What is loaded
# TYPE z_info gauge
z_info{model="own",kind="text"} 1
z_info{model="a",base_model="other"} 1
z_info{model="a"} 1
`,
  );
  assert.equal(labelMetrics(new Map()), "");
});

Deno.test("scrape() leaves out a process that answers with an error", async () => {
  await using failing = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    () => Response.json({ error: { code: "shutting_down" } }, { status: 503 }),
  );
  await using working = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    () => new Response("x_total 3\n"),
  );
  const states = [failing, working].map(({ addr: { port } }, index) => ({
    model: { id: `model-${index}` },
    address: { url: `http://127.0.0.1:${port}`, key: "key" } as ModelAddress,
    ...{ status: "loaded", numInUse: 0, numWaiting: 0, numStarts: 1, bytes: 0, numLosses: 0 },
  }));
  const text = await new RouterMetrics({ states } as unknown as ModelPool).scrape();
  assert.match(text, /^x_total\{model="model-1"\} 3$/m);
  assert.match(text, /^hearth_router_model_starts\{model="model-0"\} 1$/m);
  assert.doesNotMatch(text, /shutting_down/);
});
