import assert from "node:assert/strict";
import { HearthProcess } from "../fixtures/hearth_process.ts";
import { chatBody } from "../fixtures/server.ts";

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly parentSpanId: string;
}

Deno.test("serve sends a request's spans, below its traceparent, and tells its times in the log", async () => {
  const bodies: string[] = [];
  const collector = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      bodies.push(await request.text());
      return Response.json({});
    },
  );
  const env = {
    OTEL_DENO: "true",
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.addr.port}`,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_BSP_SCHEDULE_DELAY: "100",
  };
  await using hearth = new HearthProcess(["-p", "0", "--device", "cpu"], { env });
  const url = await hearth.ready();
  const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
  const content = "Is this secret?";
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      traceparent: `00-${traceId}-00f067aa0ba902b7-01`,
    },
    body: JSON.stringify(chatBody({ messages: [{ role: "user", content }] })),
  });
  assert.equal(response.status, 200);
  await response.body?.cancel();
  const [line] = await hearth.logged(/INFO +request .*\n/);
  assert.match(
    line,
    /readSeconds=\S+ workSeconds=\S+ queueSeconds=\S+ prefillSeconds=\S+ decodeSeconds=/,
  );
  assert.match(line, /promptTokens=\d+ cachedTokens=\d+ completionTokens=\d+/);
  while (!bodies.join().includes('"decode"')) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const spans: Span[] = bodies.flatMap((body) => JSON.parse(body).resourceSpans ?? [])
    .flatMap(({ scopeSpans }) => scopeSpans)
    .flatMap(({ spans }) => spans);
  const own = spans.filter((span) => span.traceId === traceId);
  const names = own.map(({ name }) => name);
  for (const name of ["POST /chat/completions", "read", "queue", "prefill", "decode"]) {
    assert.ok(names.includes(name), `${name} in ${names}`);
  }
  assert.ok(!bodies.join().includes(content));
  hearth.kill("SIGTERM");
  await hearth.ending;
  await collector.shutdown();
});
