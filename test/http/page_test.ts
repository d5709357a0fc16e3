import assert from "node:assert/strict";
import { TestApp } from "../fixtures/servers/server.ts";

Deno.test("GET / is the page, whose content security policy allows nothing from elsewhere", async () => {
  await using app = new TestApp();
  const page = await app.request("/");
  assert.equal(page.status, 200);
  assert.match(page.headers.get("content-type")!, /^text\/html/);
  const policy = page.headers.get("content-security-policy")!;
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
  assert.doesNotMatch(policy, /unsafe|\*/);
  assert.equal(page.headers.get("set-cookie"), null);
  const html = await page.text();
  for (const [, path] of html.matchAll(/(?:src|href)="(page\/[^"]+)"/g)) {
    const file = await app.request(`/${path}`);
    assert.equal(file.status, 200, path);
    assert.ok((await file.text()).length > 100, path);
  }
});

Deno.test("the page's script is sent compressed to clients that accept it", async () => {
  await using app = new TestApp();
  const plain = await (await app.request("/page/script.js")).text();
  const packed = await app.request("/page/script.js", { headers: { "accept-encoding": "gzip" } });
  assert.equal(packed.headers.get("content-encoding"), "gzip");
  const stream = packed.body!.pipeThrough(new DecompressionStream("gzip"));
  assert.equal(await new Response(stream).text(), plain);
});

Deno.test("with an API key, the page is open but its data are not", async () => {
  await using app = new TestApp({ settings: { apiKeys: [{ label: "test", key: "secret" }] } });
  assert.equal((await app.request("/")).status, 200);
  assert.equal((await app.request("/page/style.css")).status, 200);
  for (const path of ["/info", "/metrics", "/openapi.json", "/v1/models", "/docs"]) {
    assert.equal((await app.request(path)).status, 401, path);
  }
});

Deno.test("--no-ui redirects / to the API's description", async () => {
  await using app = new TestApp({ settings: { ui: false } });
  const answer = await app.request("/");
  assert.equal(answer.status, 302);
  assert.equal(answer.headers.get("location"), "docs");
  assert.equal((await app.request("/page/script.js")).status, 404);
});

Deno.test("GET /info answers 503 until the model is loaded, and then describes it", async () => {
  await using app = new TestApp();
  assert.equal((await app.request("/info")).status, 503);
  await app.ready();
  const info = await (await app.request("/info")).json();
  assert.equal(info.id, "hearth-demo-chat");
  assert.equal(info.kind, "text");
  assert.equal(info.device, "cpu");
  assert.equal(info.context_length, 2048);
  assert.equal(info.takes_audio, false);
  assert.equal(info.takes_reference_voice, false);
});

Deno.test("the page's content security policy allows the servers named by `connect` in the page's URL, and no others", async () => {
  await using app = new TestApp();
  const getPolicy = async (query: string) => {
    const { headers } = await app.request(`/${query}`);
    return headers.get("content-security-policy")!.match(/connect-src ([^;]*)/)![1];
  };
  assert.equal(await getPolicy(""), "'self'");
  assert.equal(
    await getPolicy("?connect=https://mcp.example.org&connect=http://127.0.0.1:8000"),
    "'self' https://mcp.example.org http://127.0.0.1:8000",
  );
  const refused = ["*", "https://*", "https:", "data:", "'unsafe-eval'", "https://a.org/x", "a;b"];
  for (const origin of [...refused, "https://a.org; script-src *", "https://a.org%0d%0ax: y"]) {
    assert.equal(await getPolicy(`?connect=${encodeURIComponent(origin)}`), "'self'", origin);
  }
  const { headers } = await app.request("/page/script.js?connect=https://mcp.example.org");
  assert.doesNotMatch(headers.get("content-security-policy")!, /example/);
});
