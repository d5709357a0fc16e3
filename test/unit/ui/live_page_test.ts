import assert from "node:assert/strict";
import { parseMetrics, PLOTS } from "../../../src/ui/live_page.tsx";

function makeLine(plot: string, label: string) {
  const line = PLOTS.find(({ title }) => title === plot)!.lines.find((each) =>
    each.label === label
  );
  return line!.read;
}

Deno.test("parseMetrics() reads names, labels and values, and ignores comments", () => {
  const scrape = parseMetrics(
    '# HELP a b\na_total 3\nb{le="+Inf",route="/x y"} 2.5e3\nc{text="say \\"hi\\""} 1\n',
  );
  assert.deepEqual(scrape.get("a_total"), [{ labels: {}, value: 3 }]);
  assert.deepEqual(scrape.get("b"), [{ labels: { le: "+Inf", route: "/x y" }, value: 2500 }]);
  assert.equal(scrape.get("c")![0]!.value, 1);
});

Deno.test("the plot Throughput shows the growth of the counter per second", () => {
  const at = (seconds: number, tokens: number) => ({
    seconds,
    scrape: parseMetrics(`hearth_completion_tokens_total ${tokens}`),
  });
  const read = makeLine("Throughput", "generated");
  assert.equal(read(at(20, 400), at(10, 100)), 30);
  // The server was restarted: its counters started again at 0.
  assert.equal(read(at(20, 10), at(10, 100)), 0);
  assert.equal(read(at(20, 10), at(20, 10)), null);
});

Deno.test("the plot of latency interpolates the median within its bucket, for the requests between two scrapes", () => {
  const name = "hearth_http_request_duration_seconds_bucket";
  const scrape = (counts: readonly number[]) =>
    parseMetrics(
      ["0.1", "0.5", "+Inf"].map((bound, index) =>
        `${name}{le="${bound}",method="POST"} ${
          counts[index]
        }\n${name}{le="${bound}",method="GET"} 99`
      ).join("\n"),
    );
  const read = makeLine("Latency of requests", "median");
  const then = { seconds: 0, scrape: scrape([10, 10, 10]) };
  assert.equal(Math.round(read({ seconds: 10, scrape: scrape([10, 20, 20]) }, then)!), 300);
  assert.equal(read({ seconds: 10, scrape: scrape([10, 10, 10]) }, then), null);
  // If the median exceeds the last finite bound, that bound is shown.
  assert.equal(read({ seconds: 10, scrape: scrape([10, 10, 20]) }, then), 500);
});
