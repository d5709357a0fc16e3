import assert from "node:assert/strict";
import { readRoutedModels } from "../../src/cli/router.ts";
import { parseCall } from "../../src/cli/parse.ts";
import { COMMANDS } from "../../src/cli/command_line.ts";
import type { RoutedModel } from "../../src/router/routed_model.ts";

const ROUTER = COMMANDS.find(({ name }) => name === "router")!;

async function read(words: readonly string[], yaml?: string): Promise<RoutedModel[]> {
  const path = Deno.makeTempFileSync({ suffix: ".yaml" });
  if (yaml !== undefined) Deno.writeTextFileSync(path, yaml);
  const config = yaml === undefined ? [] : ["--config", path];
  const call = parseCall(ROUTER, [...words, ...config], {});
  assert.ok(typeof call !== "string");
  try {
    return await readRoutedModels(call.flags as Parameters<typeof readRoutedModels>[0]);
  } finally {
    Deno.removeSync(path);
  }
}

Deno.test("readRoutedModels() reads names, flags for all models, and flags for one model", async () => {
  const models = await read(
    ["-m", "hearth-demo-chat", "--device", "cpu", "--no-prefix-cache", "--kv-cache-mb", "64"],
    `models:
  - hearth-demo-tts
  - model: hearth-demo-embed
    model-alias: [text-embedding-3-small, embed]
    any-model: true
    max-sequences: 4
    prefix-cache: true
  - model: bge-m3
  - model: owner/unknown
`,
  );
  const facts = models.map(({ id, kind }) => `${id} ${kind}`);
  assert.deepEqual(facts, [
    "hearth-demo-chat text",
    "hearth-demo-tts tts",
    "hearth-demo-embed embedding",
    "Xenova/bge-m3 embedding",
    "owner/unknown undefined",
  ]);
  const [chat, , embed] = models;
  const common = ["--kv-cache-mb=64", "--device=cpu", "--no-prefix-cache"];
  assert.deepEqual([...chat!.args].sort(), [...common, "--model=hearth-demo-chat"].sort());
  assert.deepEqual(embed!.args.slice(-6), [
    ...["--model=hearth-demo-embed", "--model-alias=text-embedding-3-small", "--model-alias=embed"],
    ...["--any-model", "--max-sequences=4", "--prefix-cache"],
  ]);
  for (const alias of ["text-embedding-3-small", "embed", "*", "hearth/hearth-demo-embed"]) {
    assert.ok(embed!.aliases.includes(alias));
  }
  // `hearth serve` accepts these arguments. The model's own flags are last, so they have precedence.
  const serve = parseCall(COMMANDS[0], embed!.args, {});
  assert.ok(typeof serve !== "string");
  assert.equal(serve.flags["prefixCache"], true);
  assert.equal(serve.flags["kvCacheMb"], 64);
});

Deno.test("readRoutedModels() reports errors with their position", async () => {
  const chat = "model: hearth-demo-chat";
  for (
    const [yaml, message] of [
      ["models: [", /\.yaml cannot be read: /],
      ["- hearth-demo-chat", /want a list "models"/],
      ["models: []", /want a list "models"/],
      ["models: [{device: cpu}]", /model 1: want "model"/],
      [`models: [{${chat}, prot: 1}]`, /model 1: There is no flag --prot/],
      [`models: [{${chat}, port: 1}]`, /model 1: There is no flag --port/],
      [`models: [{${chat}, api-key: x}]`, /model 1: There is no flag --api-key/],
      [`models: [{${chat}, help: true}]`, /model 1: A model has no flag --help/],
      [`models: [{${chat}, device: tpu}]`, /model 1: --device wants one of auto, webgpu, cpu/],
      [`models: [{${chat}, memory-mb: 1.5}]`, /model 1: memory-mb: want a whole number of MiB/],
      [`models: [{${chat}, memory-mb: many}]`, /model 1: memory-mb: want a whole number of MiB/],
      [`models: [{${chat}, device: null}]`, /model 1: device: want a text/],
      [`models: [hearth-demo-chat, {${chat}}]`, /hearth-demo-chat is named twice/],
      ["models: [/no/such/folder]", /There is no folder/],
    ] as const
  ) {
    await assert.rejects(read([], yaml), { name: "StartupError", message }, yaml);
  }
  await assert.rejects(read([]), /router wants models/);
  await assert.rejects(read(["--config", "/no/such.yaml"]), /\/no\/such\.yaml cannot be read/);
});
