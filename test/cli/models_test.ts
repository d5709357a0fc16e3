import assert from "node:assert/strict";
import { join } from "node:path";
import { MODEL_KINDS } from "../../src/base/config.ts";
import { FakeHub } from "../fixtures/servers/fake_hub.ts";
import { runHearth } from "../fixtures/servers/hearth_process.ts";
import { NEEDED_FILES, readHubModel } from "../fixtures/servers/hub_model.ts";
import { hasTerminals, runInTerminal } from "../fixtures/servers/terminal.ts";
import { ScratchCache } from "../hub/scratch_cache.ts";

const ID = "HuggingFaceTB/SmolLM2-135M-Instruct";
const ALIAS = "smollm2-135m";
const COMMIT = "12fd25f77366fa6b3b4b768ec3050bf629380bac";

/**
 * Writes a cache as Python's huggingface_hub does: blobs by checksum, links to them, a reference, and markers for files
 * that do not exist.
 */
async function writePythonCache(cache: string): Promise<void> {
  const repository = join(cache, `models--${ID.replace("/", "--")}`);
  const snapshot = join(repository, "snapshots", COMMIT);
  for (const folder of ["blobs", "refs", `.no_exist/${COMMIT}/onnx`]) {
    await Deno.mkdir(join(repository, folder), { recursive: true });
  }
  await Deno.mkdir(join(snapshot, "onnx"), { recursive: true });
  const files = readHubModel();
  for (const [index, file] of NEEDED_FILES.entries()) {
    const blob = String(index).repeat(40);
    await Deno.writeFile(join(repository, "blobs", blob), files[file]!);
    const up = file.includes("/") ? "../../../" : "../../";
    await Deno.symlink(`${up}blobs/${blob}`, join(snapshot, file));
  }
  await Deno.writeTextFile(join(repository, "refs", "main"), COMMIT);
  await Deno.writeTextFile(join(repository, `.no_exist/${COMMIT}/onnx/model_quantized.onnx`), "");
}

async function withPythonCache(
  use: (env: Record<string, string>, cache: ScratchCache) => Promise<void>,
): Promise<void> {
  await using cache = new ScratchCache();
  await writePythonCache(cache.folder);
  // A model that another tool downloaded, and one whose download was interrupted.
  await Deno.mkdir(join(cache.folder, "models--bert--base", "snapshots", COMMIT), {
    recursive: true,
  });
  await Deno.mkdir(join(cache.folder, "models--ada--cut", "blobs"), { recursive: true });
  await Deno.writeTextFile(join(cache.folder, "models--ada--cut", "blobs", "0.incomplete"), "half");
  // Nothing listens on this port.
  await use({ HF_HUB_CACHE: cache.folder, HF_ENDPOINT: "http://127.0.0.1:9" }, cache);
}

Deno.test("list --json reports kind, dtypes and size of built-in and cached models, and the catalogue", async () => {
  await withPythonCache(async (env) => {
    const { code, stdout } = await runHearth(["list", "--json"], { env });
    assert.equal(code, 0);
    const { local, catalogue } = JSON.parse(stdout);
    const find = (id: string) => local.find((model: { id: string }) => model.id === id);
    const builtIn = find("hearth-demo-chat");
    assert.equal(builtIn.source, "built-in");
    assert.equal(builtIn.kind, "text");
    assert.deepEqual(builtIn.dtypes, ["fp32", "fp16", "q4", "q4f16"]);
    assert.deepEqual(builtIn.aliases, []);
    assert.equal(builtIn.path, "batched");
    const kinds = local.map((model: { kind: string }) => model.kind);
    assert.deepEqual(MODEL_KINDS.filter((kind) => !kinds.includes(kind)), []);
    const cached = find(ID);
    assert.deepEqual(cached.aliases, [ALIAS]);
    assert.equal(cached.source, "cache");
    assert.equal(cached.kind, "text");
    assert.deepEqual(cached.dtypes, ["q4"]);
    const files = readHubModel();
    const bytes = NEEDED_FILES.reduce((sum, file) => sum + files[file]!.length, 0);
    assert.ok(cached.bytes >= bytes && cached.bytes < bytes + 100, String(cached.bytes));
    assert.equal(find("ada/cut").folder, undefined);
    assert.equal(find("bert/base"), undefined);
    const alias = catalogue.find((entry: { alias: string }) => entry.alias === ALIAS);
    assert.deepEqual(alias, { alias: ALIAS, id: ID, kind: "text", isHere: true });
    assert.ok(catalogue.length > 40);
  });
});

Deno.test("list prints the same table at a terminal and to a pipe", async () => {
  await withPythonCache(async (env) => {
    const { stdout } = await runHearth(["list"], { env });
    assert.match(
      stdout,
      /^ {2}hearth-demo-chat +text +fp32 fp16 q4 q4f16 +batched +\S+ MB +built-in$/m,
    );
    assert.match(stdout, /^ {2}hearth-demo-embed +embedding +fp32 fp16 q8 +batched +\S+ MB/m);
    assert.match(stdout, /^ {2}hearth-demo-tts +tts +fp32 fp16 q8 +\d\S+ MB/m);
    assert.doesNotMatch(stdout, /hearth\/hearth-demo/);
    assert.match(
      stdout,
      new RegExp(`^ {2}${ID} +${ALIAS} +text +q4 +batched +2\\.28 MB +cache$`, "m"),
    );
    assert.match(stdout, /^ {2}ada\/cut +incomplete +4 bytes +cache$/m);
    assert.match(stdout, /^ {2}qwen3-0\.6b +text +onnx-community\/Qwen3-0\.6B-ONNX$/m);
    if (!hasTerminals) return;
    const { code, screen } = await runInTerminal(["list"], { env });
    assert.equal(code, 0);
    assert.equal(screen, stdout);
  });
});

Deno.test("pull and inspect use a model in Python's cache", async () => {
  await withPythonCache(async (env) => {
    const { code, stdout } = await runHearth(["inspect", ALIAS], { env });
    assert.equal(code, 0);
    assert.match(stdout, /model_q4\.onnx: cut into 5 segments/);
    const offline = await runHearth(["pull", ALIAS, "--offline", "--device", "cpu"], { env });
    assert.equal(offline.code, 0, offline.stderr);
    assert.match(offline.stdout, new RegExp(`ready to be served from .*${COMMIT}\n$`));
    // A marker says that there is no q8; there is no such marker for fp32.
    const other = await runHearth(["pull", ALIAS, "--offline", "--dtype", "fp32"], { env });
    assert.equal(other.code, 1);
    assert.match(other.stderr, /are missing in .*Hearth is offline/);
  });
});

Deno.test("rm asks before it removes a model from the cache, and wants --yes without a terminal", async () => {
  await withPythonCache(async (env, cache) => {
    const silent = await runHearth(["rm", ALIAS], { env });
    assert.equal(silent.code, 1);
    assert.match(
      silent.stderr,
      /^hearth: Remove HuggingFaceTB\/.* \(2\.28 MB\).*confirm with --yes\.\n$/,
    );
    if (hasTerminals) {
      const no = await runInTerminal(["rm", ALIAS], { env, keys: "n\n" });
      assert.equal(no.code, 1);
      assert.match(no.screen, /^Remove HuggingFaceTB\/\S+ \(2\.28 MB\) from .*\? \[y\/N\]/m);
    }
    assert.ok(cache.files(ID, "snapshots").size > 0);
    const yes = await (hasTerminals
      ? runInTerminal(["rm", ALIAS], { env, keys: "y\n" })
      : runHearth(["rm", ALIAS, "-y"], { env }));
    assert.equal(yes.code, 0);
    assert.deepEqual(
      [...Deno.readDirSync(cache.folder)].map(({ name }) =>
        name
      ).sort(),
      [
        "models--ada--cut",
        "models--bert--base",
      ],
    );
    const again = await runHearth(["rm", ALIAS, "--yes"], { env });
    assert.equal(again.code, 1);
    assert.match(again.stderr, /is not in the cache: there is no /);
  });
});

Deno.test("rm does not remove a built-in model", async () => {
  const { code, stderr } = await runHearth(["rm", "hearth-demo-chat", "--yes"]);
  assert.equal(code, 1);
  assert.match(stderr, /hearth-demo-chat is a folder, not in the cache; rm only removes/);
});

Deno.test({
  name: "pull on a terminal draws a bar with rate and time left, and clears it at the end",
  ignore: !hasTerminals,
  fn: async () => {
    await using hub = new FakeHub();
    await using cache = new ScratchCache();
    hub.addModel(ID, readHubModel());
    hub.onFile = ({ path }) =>
      path.endsWith(".onnx") ? { type: "slow", pieceBytes: 400_000, pauseMs: 130 } : undefined;
    const env = { HF_HUB_CACHE: cache.folder, HF_ENDPOINT: hub.url };
    const { code, screen } = await runInTerminal(["pull", ALIAS, "--device", "cpu"], { env });
    assert.equal(code, 0, screen);
    assert.match(
      screen,
      /\[#+-+\] +\d+% \S+ [kM]B of 2\.28 MB, \S+ [kM]B\/s, \d+ s left {2}Hugging/,
    );
    const end = screen.split("\x1b[K").at(-1)!;
    assert.match(end, /^\rHuggingFaceTB\/\S+ is ready to be served from .*\n$/);
    for (const line of screen.split("\r")) assert.ok(line.length <= 103 || line.endsWith("\n"));
  },
});
