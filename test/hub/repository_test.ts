import assert from "node:assert/strict";
import { HubError } from "../../src/hub/hub_request.ts";
import { parseHubId } from "../../src/hub/cache.ts";
import { fetchRepository } from "../../src/hub/repository.ts";
import { FakeHub } from "../fixtures/servers/fake_hub.ts";
import { ScratchCache } from "./scratch_cache.ts";

async function ask(
  hub: FakeHub,
  id: string,
  environment: Record<string, string> = {},
): Promise<string> {
  await using cache = new ScratchCache();
  const settings = cache.settings({ HF_ENDPOINT: `${hub.url}/`, ...environment });
  const options = { pause: () => Promise.resolve() };
  return await fetchRepository(settings, parseHubId(id)!, options).then(
    ({ commit, files }) => `${commit} ${[...files.keys()].join(" ")}`,
    (error: unknown) => {
      assert.ok(error instanceof HubError, String(error));
      return error.message;
    },
  );
}

Deno.test("fetchRepository() finds the commit and the files by branch or by commit", async () => {
  await using hub = new FakeHub();
  const commit = hub.addModel("ada/engine", { "config.json": "{}", "onnx/model.onnx": "graph" });
  for (const id of ["ada/engine", "ada/engine@main", `ada/engine@${commit}`]) {
    assert.equal(await ask(hub, id), `${commit} config.json onnx/model.onnx`);
  }
});

Deno.test("fetchRepository() of a gated model gives the hub's reason, and says how to get a token", async () => {
  await using hub = new FakeHub();
  hub.addModel("ada/secret", { "config.json": "{}" }, { isGated: true });
  const message = await ask(hub, "ada/secret");
  assert.match(message, /refuses ada\/secret: 401, "Access to model ada\/secret is restricted\./);
  assert.match(message, /Ask for access on the model's page, then set HF_TOKEN/);
  assert.match(await ask(hub, "ada/secret", { HF_TOKEN: hub.token }), / config\.json$/);
});

Deno.test("fetchRepository() of an unknown model gives the hub's reason and similar names", async () => {
  await using hub = new FakeHub();
  hub.addModel("ada/Engine-1-ONNX", { "config.json": "{}" });
  const anonymous = await ask(hub, "bob/engine-1");
  assert.match(anonymous, /401, "Invalid username or password\."\. Check the name; if .*HF_TOKEN/);
  assert.match(anonymous, /Similar names: ada\/Engine-1-ONNX\.$/);
  const known = await ask(hub, "bob/nothing", { HF_TOKEN: hub.token });
  assert.match(known, /404, "Repository not found"\. Check the name, and that HF_TOKEN is valid/);
  assert.doesNotMatch(known, /Similar names/);
  assert.match(await ask(hub, "bob/nothing", { HF_TOKEN: "hf_wrong" }), /Invalid credentials/);
});

Deno.test("fetchRepository() of an unknown revision says so", async () => {
  await using hub = new FakeHub();
  hub.addModel("ada/engine", { "config.json": "{}" });
  const message = await ask(hub, "ada/engine@v9");
  assert.match(
    message,
    /refuses ada\/engine@v9: 404, "Invalid rev id: v9"\. After the @, name a branch/,
  );
});

Deno.test("fetchRepository() retries while the hub is busy, and then says that it is busy", async () => {
  await using hub = new FakeHub();
  hub.addModel("ada/engine", { "config.json": "{}" });
  hub.apiStatus = { status: 429, headers: { "retry-after": "1" } };
  assert.match(await ask(hub, "ada/engine"), /429\. Wait a while\. With HF_TOKEN set/);
  assert.equal(hub.requests.length, 5);
});

Deno.test("fetchRepository() names the address of a hub that cannot be reached", async () => {
  const hub = new FakeHub();
  const { url } = hub;
  await hub[Symbol.asyncDispose]();
  const message = await ask(hub, "ada/engine");
  assert.ok(message.startsWith(`${url} cannot be reached for ada/engine: `), message);
  assert.match(message, /refused.*Check the network, or name another hub with HF_ENDPOINT\.$/);
});

Deno.test("fetchRepository() leaves out only files whose names are unsafe", async () => {
  const odd = ["../evil", "/etc/passwd", "a/../../b", "C:x", "a\\b", "", "a//b"];
  for (const path of [...odd, "a\u001b[2Jb", "a\nb", "a\u202eb", "x".repeat(2000)]) {
    await using hub = new FakeHub();
    hub.addModel("ada/engine", { "config.json": "{}", [path]: "x" });
    assert.match(await ask(hub, "ada/engine"), /^[0-9a-f]{40} config\.json$/, path);
  }
});

/** A hub that gives the same answer to every request. */
function alike(makeBody: () => BodyInit, init: ResponseInit) {
  return Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    () => new Response(makeBody(), init),
  );
}

async function askUrl(url: string): Promise<Error> {
  await using cache = new ScratchCache();
  const options = { pause: () => Promise.resolve() };
  return await fetchRepository(
    cache.settings({ HF_ENDPOINT: url }),
    parseHubId("ada/engine")!,
    options,
  ).then(() => assert.fail("It went well."), (error: Error) => error);
}

Deno.test("fetchRepository() names HF_ENDPOINT if it is not an http or https URL", async () => {
  for (const url of ["hf-mirror.com", "file:///tmp/hub", "https://"]) {
    const { message } = await askUrl(url);
    assert.match(message, /^HF_ENDPOINT: want an address such as https:\/\/huggingface\.co, saw "/);
  }
});

Deno.test("fetchRepository() stops reading an endless answer", async () => {
  for (const status of [200, 404]) {
    let numBytes = 0;
    const endless = () =>
      new ReadableStream<Uint8Array>({
        pull(controller) {
          numBytes += 2 ** 20;
          if (numBytes > 2_000 * 2 ** 20) controller.close();
          else controller.enqueue(new Uint8Array(2 ** 20).fill(32));
        },
      });
    await using server = alike(endless, { status });
    const error = await askUrl(`http://127.0.0.1:${server.addr.port}`);
    if (status === 200) assert.match(error.message, /answered with more than 32 MiB/);
    // A busy server notices late that the client has left.
    assert.ok(numBytes < 500 * 2 ** 20, `${numBytes} bytes were sent`);
  }
});

Deno.test("fetchRepository() shows the hub's message on one line, without control characters", async () => {
  const said = `\u001b[31mred\u0007\r\nnext\u202e${"x".repeat(100_000)}`;
  const json = JSON.stringify({ error: said });
  for (const body of [json, said]) {
    await using server = alike(() => body, { status: 403 });
    const { message } = await askUrl(`http://127.0.0.1:${server.addr.port}`);
    assert.match(message, /red/);
    // deno-lint-ignore no-control-regex -- they are what must not be there
    assert.doesNotMatch(message, /[\u0000-\u001f\u007f-\u009f\u202e]/);
    assert.ok(message.length < 700, String(message.length));
  }
});

Deno.test("fetchRepository() refuses answers that are not from a hub", async () => {
  for (const body of ["[]", "{}", '{"sha": 1}', "<html>"]) {
    await using server = alike(() => body, { status: 200 });
    const { message } = await askUrl(`http://127.0.0.1:${server.addr.port}`);
    assert.match(message, /not as a Hugging Face hub does/, body);
  }
});
