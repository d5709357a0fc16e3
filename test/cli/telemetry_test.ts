import assert from "node:assert/strict";
import { HearthProcess } from "../fixtures/servers/hearth_process.ts";
import { chatBody } from "../fixtures/servers/server.ts";

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
}

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue: string };
}

Deno.test("serve sends a request's spans as children of its traceparent, and logs the request's times", async () => {
  const bodies: string[] = [];
  const collector = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      assert.equal(new URL(request.url).pathname, "/v1/traces");
      assert.equal(request.headers.get("x-tenant"), "a b");
      bodies.push(await request.text());
      return Response.json({});
    },
  );
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.addr.port}`,
    OTEL_EXPORTER_OTLP_HEADERS: "x-tenant=a%20b",
    OTEL_RESOURCE_ATTRIBUTES: "deployment.environment=test",
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
  const [whole, ...phases] = own;
  assert.equal(whole!.parentSpanId, "00f067aa0ba902b7");
  for (const { parentSpanId } of phases) assert.equal(parentSpanId, whole!.spanId);
  for (const { startTimeUnixNano, endTimeUnixNano } of own) {
    assert.ok(BigInt(startTimeUnixNano) <= BigInt(endTimeUnixNano));
  }
  const { attributes } = JSON.parse(bodies[0]!).resourceSpans[0].resource;
  const resource = Object.fromEntries(
    attributes.map(({ key, value }: Attribute) => [key, value.stringValue]),
  );
  assert.equal(resource["service.name"], "hearth");
  assert.equal(resource["deployment.environment"], "test");
  const { choices } = await response.json();
  const answer: string = choices[0].message.content;
  assert.ok(answer.length > 3);
  for (const text of [content, answer]) assert.ok(!bodies.join().includes(text));
  hearth.kill("SIGTERM");
  await hearth.ending;
  await collector.shutdown();
});
