import assert from "node:assert/strict";
import { labelMetrics } from "../../src/router/router_metrics.ts";

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
