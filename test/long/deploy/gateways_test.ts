/** The files for third-party gateways, compared with a running server. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { parse, parseAllDocuments } from "yaml";
import { COMMANDS } from "../../../src/cli/command_line.ts";
import type { FlagValues } from "../../../src/cli/command.ts";
import type { SERVE_FLAGS } from "../../../src/cli/flags.ts";
import { parseCall } from "../../../src/cli/parse.ts";
import { LOCAL_CALLER, TestApp } from "../../fixtures/servers/server.ts";

const FOLDER = fileURLToPath(new URL("../../../deploy/", import.meta.url));

// deno-lint-ignore no-explicit-any -- the documents are what the tests are about
type Document = any;

function read(name: string): Document[] {
  const documents = parseAllDocuments(Deno.readTextFileSync(FOLDER + name));
  assert.deepEqual(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings]), []);
  return documents.map((document) => document.toJS());
}

const [deployment] = read("kubernetes.yaml");

Deno.test("deploy/inference_gateway.yaml selects the pods of kubernetes.yaml, and its resources refer to each other", () => {
  const [pool, route, config, policy] = read("inference_gateway.yaml");
  const { template } = deployment.spec;
  assert.deepEqual(pool.spec.selector.matchLabels, template.metadata.labels);
  assert.deepEqual(policy.spec.podSelector.matchLabels, template.metadata.labels);
  const [{ containerPort: port }] = template.spec.containers[0].ports;
  assert.deepEqual(pool.spec.targetPorts, [{ number: port }]);
  assert.equal(policy.spec.ingress[0].ports[0].port, port);
  const [{ kind, name, group }] = route.spec.rules[0].backendRefs;
  assert.deepEqual([kind, name], [pool.kind, pool.metadata.name]);
  assert.equal(pool.apiVersion, `${group}/v1`);
  const { plugins, schedulingProfiles } = parse(config.data["hearth.yaml"]);
  const types = plugins.map(({ type }: Document) => type);
  for (const { pluginRef } of schedulingProfiles[0].plugins) {
    assert.ok(types.includes(pluginRef), pluginRef);
  }
});

Deno.test("deploy/inference_gateway.yaml: the metrics of its picker are gauges of a running server", async () => {
  const [, , config] = read("inference_gateway.yaml");
  const { plugins } = parse(config.data["hearth.yaml"]);
  const [source, extractor] = plugins;
  const [engine] = extractor.parameters.engineConfigs;
  assert.equal(extractor.parameters.defaultEngine, engine.name);
  await using app = await new TestApp().ready();
  const scrape = async () => await (await app.request(source.parameters.path)).text();
  const names = [engine.queuedRequestsSpec, engine.runningRequestsSpec, engine.kvUsageSpec];
  const text = await scrape();
  for (const name of names) {
    assert.match(text, new RegExp(`^# TYPE ${name} gauge$`, "m"));
    assert.match(text, new RegExp(`^${name} 0$`, "m"));
  }
  const flags = Deno.readTextFileSync(`${FOLDER}inference_gateway.yaml`);
  for (const name of names) assert.match(flags, new RegExp(`-metric ${name}`));
  const running = await app.post("/v1/chat/completions", {
    ...{ model: "hearth-demo-chat", stream: true, ignore_eos: true },
    messages: [{ role: "user", content: "Count." }],
  });
  const reader = running.body!.getReader();
  await reader.read();
  const value = (text: string, name: string) =>
    Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)![1]);
  const busy = await scrape();
  assert.equal(value(busy, engine.runningRequestsSpec), 1);
  const used = value(busy, engine.kvUsageSpec);
  assert.ok(used > 0 && used <= 1, `${used}`);
  await reader.cancel();
});

Deno.test("deploy/kserve.yaml: the program knows its environment variables and serves its probes and hosts", async () => {
  const [{ metadata, spec }] = read("kserve.yaml");
  const [container] = spec.predictor.containers;
  const values: Record<string, string> = {};
  for (const { name, value } of container.env) {
    values[name] = value?.replace("$(POD_IP)", "10.1.2.3") ?? "10.1.2.3";
  }
  const call = parseCall(COMMANDS[0], [], values);
  assert.ok(typeof call === "object");
  const flags = call.flags as FlagValues<typeof SERVE_FLAGS>;
  assert.equal(flags.port, container.ports[0].containerPort);
  const { address: host, allowedHost: allowedHosts } = flags;
  await using app = await new TestApp({ settings: { host, allowedHosts } }).ready();
  const caller = { ...LOCAL_CALLER, callerAddress: "10.1.9.9" };
  const ask = async (host: string, path: string) =>
    (await app.request(path, { headers: { host } }, caller)).status;
  for (const { httpGet: { path, port } } of [container.startupProbe, container.readinessProbe]) {
    assert.equal(port, flags.port);
    assert.equal(await ask(`10.1.2.3:${port}`, path), 200);
  }
  const service = `${metadata.name}-predictor`;
  for (
    const name of [service, `${service}.models.svc.cluster.local`, "hearth-models.example.com"]
  ) {
    assert.equal(await ask(name, "/v1/models"), 200, name);
  }
  assert.equal(await ask("elsewhere.example.com", "/v1/models"), 403);
  const drain = Number(values["HEARTH_DRAIN_SECONDS"]);
  assert.ok(spec.predictor.terminationGracePeriodSeconds > drain);
});

/** The URL that LiteLLM posts to, by the provider before the model's name. */
function computeAddress(
  { model, api_base: base }: { model: string; api_base: string },
  path: string,
) {
  const { pathname } = new URL(base);
  return model.startsWith("hosted_vllm/") ? `${pathname}/rerank` : `${pathname}${path}`;
}

Deno.test("deploy/litellm.yaml: re-ranking is answered in LiteLLM's format; under /v1 it would not be", async () => {
  const [{ model_list: models }] = read("litellm.yaml");
  const { litellm_params: params } = models.find(({ model_info: { mode } }: Document) =>
    mode === "rerank"
  );
  await using app = await new TestApp({ model: "hearth-demo-rerank" }).ready();
  const body = {
    model: "hearth-demo-rerank",
    query: "what is the capital of Portugal",
    documents: ["Rinse the rice.", "The capital of Portugal is Lisbon."],
    return_documents: true,
  };
  /** Reads results like LiteLLM, which wants each document as an object with a text. */
  const readResults = async (path: string) => {
    const { results } = await (await app.post(path, body)).json();
    return results.map(({ index, relevance_score, document }: Document) => {
      assert.equal(typeof relevance_score, "number");
      if (document) assert.equal(typeof document.text, "string");
      return index;
    });
  };
  assert.deepEqual(await readResults(computeAddress(params, "")), [1, 0]);
  await assert.rejects(readResults("/v1/rerank"));
});

Deno.test("deploy/litellm.yaml: the requests that LiteLLM adds are answered", async () => {
  const [{ model_list: models }] = read("litellm.yaml");
  const { litellm_params: params } = models.find(({ model_info: { mode } }: Document) =>
    mode === "chat"
  );
  await using app = await new TestApp().ready();
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  for (
    const body of [
      // A health check.
      { messages, max_tokens: 1 },
      { messages, stream: true, stream_options: { include_usage: true }, user: "x" },
      { messages, metadata: { user_api_key: "x" }, drop_params: true, extra_body: {}, n: 1 },
    ]
  ) {
    const path = computeAddress(params, "/chat/completions");
    const response = await app.post(path, { model: "hearth-demo-chat", ...body });
    assert.equal(response.status, 200, await response.text());
  }
});

const PYTHON = ["/usr/bin/python3", "/bin/python3"].find((path) => {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
});

Deno.test({
  name: `deploy/ray_serve.py is Python${PYTHON === undefined ? " (skipped: no python3)" : ""}`,
  ignore: PYTHON === undefined,
  fn: async () => {
    const read = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
    const { success, stderr } = await new Deno.Command(PYTHON!, {
      args: ["-c", read, `${FOLDER}ray_serve.py`],
    }).output();
    assert.ok(success, new TextDecoder().decode(stderr));
  },
});
