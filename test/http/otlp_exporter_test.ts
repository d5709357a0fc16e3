import assert from "node:assert/strict";
import { OtlpExporter, toSpans } from "../../src/server/http/spans.ts";
import { CapturedStderr } from "../fixtures/servers/capture_stderr.ts";

function fromEnvironment(variables: Record<string, string>): OtlpExporter | undefined {
  return OtlpExporter.fromEnvironment((name) => variables[name]);
}

function spans(headers: Record<string, string> = {}) {
  const request = new Request("http://localhost/x", { method: "POST", headers });
  return toSpans({ request, route: "/x", status: 500, startMs: 0, work: undefined });
}

Deno.test("OtlpExporter.fromEnvironment() makes an exporter if a valid address of a collector is set and the SDK is not disabled", () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318" };
  assert.ok(fromEnvironment(endpoint) !== undefined);
  assert.ok(
    fromEnvironment({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://localhost:4318/x" }) !==
      undefined,
  );
  assert.equal(fromEnvironment({}), undefined);
  assert.equal(fromEnvironment({ ...endpoint, OTEL_SDK_DISABLED: "true" }), undefined);
  assert.equal(fromEnvironment({ OTEL_EXPORTER_OTLP_ENDPOINT: "collector" }), undefined);
});

Deno.test("toSpans() continues the caller's trace or begins one, and returns no spans for a trace that is not sampled", () => {
  const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
  const parent = `00-${traceId}-00f067aa0ba902b7`;
  const [followed] = spans({ traceparent: `${parent}-01` });
  assert.deepEqual([followed!.traceId, followed!.parentSpanId], [traceId, "00f067aa0ba902b7"]);
  assert.deepEqual(spans({ traceparent: `${parent}-00` }), []);
  for (const headers of [{}, { traceparent: "nonsense" }] as Record<string, string>[]) {
    const [own] = spans(headers);
    assert.match(own!.traceId, /^[\da-f]{32}$/);
    assert.equal(own!.parentSpanId, undefined);
    assert.equal(own!.isError, true);
  }
});

Deno.test("OtlpExporter.flush() logs the first refusal in a row, and again the first one after a success", async () => {
  const statuses = [500, 500, 200, 500];
  const collector = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    () => new Response(null, { status: statuses.shift()! }),
  );
  const exporter = fromEnvironment({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.addr.port}/`,
  })!;
  using stderr = new CapturedStderr("warn");
  for (let n = 0; n < 4; n++) {
    exporter.add(spans());
    await exporter.flush();
  }
  assert.equal(stderr.lines.join().match(/spans could not be sent/g)?.length, 2);
  await collector.shutdown();
});
