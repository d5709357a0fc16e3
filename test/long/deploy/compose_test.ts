import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { COMMANDS } from "../../../src/cli/command_line.ts";
import { parseCall } from "../../../src/cli/parse.ts";
import { readRoutedModels } from "../../../src/cli/router.ts";
import { HearthProcess } from "../../fixtures/servers/hearth_process.ts";
import { freePort, HAS_NGINX, Nginx } from "../../fixtures/servers/nginx.ts";
import { chatBody } from "../../fixtures/servers/server.ts";

const FOLDER = fileURLToPath(new URL("../../../deploy/", import.meta.url));

interface Service {
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes: readonly string[];
  readonly stop_grace_period?: string;
  readonly network_mode?: string;
}

const { services, volumes } = parse(Deno.readTextFileSync(`${FOLDER}compose.yaml`), {
  merge: true,
}) as { services: Record<string, Service>; volumes: Record<string, unknown> };

/** The flags of a service, from its arguments and variables. */
function readFlags(name: string): Readonly<Record<string, unknown>> {
  const { command = [], environment = {} } = services[name]!;
  const isNamed = COMMANDS.some((each) => each.name === command[0]);
  const [word, ...rest] = isNamed ? command : ["serve", ...command];
  const called = COMMANDS.find((each) => each.name === word)!;
  const call = parseCall(called, rest, environment);
  assert.ok(typeof call !== "string", name);
  return call.flags;
}

Deno.test("deploy/compose.yaml runs commands with existing flags", () => {
  const router = readFlags("router");
  assert.deepEqual([router["config"], router["maxMemoryMb"]], ["/models.yaml", 7000]);
  assert.deepEqual([readFlags("chat-a")["port"], readFlags("chat-b")["port"]], [10100, 10101]);
  for (const name of ["chat-a", "chat-b"]) {
    assert.deepEqual(readFlags(name)["allowedHost"], ["hearth.example.org", "nginx"]);
    assert.equal(services[name]!.network_mode, "service:nginx");
  }
  const image = Deno.readTextFileSync(`${FOLDER}Dockerfile`);
  const drainSeconds = Number(/HEARTH_DRAIN_SECONDS=(\d+)/.exec(image)![1]);
  for (const [name, { volumes: mounts, stop_grace_period }] of Object.entries(services)) {
    for (const mount of mounts) {
      const [source] = mount.split(":");
      if (source!.startsWith("./")) assert.ok(Deno.statSync(FOLDER + source).isFile, mount);
      else assert.ok(source! in volumes, mount);
    }
    // A model's process may take ten seconds to end after its requests.
    if (name !== "nginx") assert.ok(parseInt(stop_grace_period!) > drainSeconds + 10, name);
  }
});

Deno.test("deploy/models.yaml names models in the catalogue", async () => {
  const call = parseCall(COMMANDS.find(({ name }) => name === "router")!, [
    ...["--config", `${FOLDER}models.yaml`],
  ], {});
  assert.ok(typeof call !== "string");
  const models = await readRoutedModels(call.flags as Parameters<typeof readRoutedModels>[0]);
  assert.deepEqual(models.map(({ kind }) => kind), ["embedding", "rerank", "asr", "tts"]);
});

Deno.test({
  name: "the processes of deploy/compose.yaml serve together",
  ignore: !HAS_NGINX,
  fn: async () => {
    const env = { HEARTH_API_KEY: "secret" };
    const ports = [freePort(), freePort()];
    await using stack = new AsyncDisposableStack();
    const replicas = ports.map((port) =>
      stack.use(new HearthProcess(["-p", `${port}`, "--device", "cpu"], { env }))
    );
    const words = ["-m", "hearth-demo-embed", "-m", "hearth-demo-rerank", "-p", "0"];
    const router = stack.use(new HearthProcess(["router", ...words, "--device", "cpu"], { env }));
    await Promise.all(replicas.map((each) => each.ready()));
    const nginx = stack.use(await Nginx.start(ports));
    const headers = { authorization: "Bearer secret", "content-type": "application/json" };
    const post = async (url: string, body: unknown) => {
      const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
      await response.body!.cancel();
      return response.status;
    };
    const routed = await router.url();
    const input = { model: "hearth-demo-embed", input: "A text." };
    assert.equal(await post(`${nginx.url}/v1/chat/completions`, chatBody({ max_tokens: 2 })), 200);
    assert.equal(await post(`${routed}/v1/embeddings`, input), 200);
    // Each server knows only its own model.
    assert.equal(await post(`${nginx.url}/v1/embeddings`, input), 400);
    assert.equal(await post(`${routed}/v1/chat/completions`, chatBody()), 404);
  },
});
