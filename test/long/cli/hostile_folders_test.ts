/** Model folders with malicious contents. */
import assert from "node:assert/strict";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { HearthProcess, runHearth } from "../../fixtures/servers/hearth_process.ts";
import { ModelFolder } from "../../fixtures/models/model_folder.ts";
import { MODELS, smallRequest } from "../../load/small_requests.ts";

const PHOTO = fileURLToPath(new URL("../../../docs/cut_out_before.jpg", import.meta.url));
const MIB = 2 ** 20;
const CPU = ["-p", "0", "--device", "cpu"];
/** Measured: 90 MiB more temporarily. A bit for each position would be 256 MiB. */
const MOST_MORE_BYTES = 192 * MIB;

/**
 * The peak of resident bytes of a server that has answered one request. @param longest the context that its config
 * claims.
 */
async function peakBytes(kind: "text" | "embedding", longest?: number): Promise<number> {
  const model = MODELS[kind];
  await using folder = await ModelFolder.create(model);
  const config = ModelFolder.readConfig(model);
  if (longest !== undefined) config["max_position_embeddings"] = longest;
  await folder.writeConfig(JSON.stringify(config));
  await using hearth = new HearthProcess([...CPU, "-m", folder.path]);
  const url = await hearth.ready();
  const { path, body, headers } = smallRequest(kind);
  // The model has the folder's name.
  const request = { ...JSON.parse(String(body)), model: basename(folder.path) };
  const response = await fetch(url + path, {
    method: "POST",
    body: JSON.stringify(request),
    headers,
  });
  assert.equal(response.status, 200, await response.text());
  const status = await Deno.readTextFile(`/proc/${hearth.pid}/status`);
  return 1024 * Number(/^VmHWM:\s+(\d+)/m.exec(status)![1]);
}

for (const kind of ["text", "embedding"] as const) {
  Deno.test(
    `a config that claims a context of 2^31 tokens does not allocate memory for them: ${kind}`,
    {
      ignore: Deno.build.os !== "linux",
    },
    async () => {
      const more = await peakBytes(kind, 2 ** 31) - await peakBytes(kind);
      assert.ok(more <= MOST_MORE_BYTES, `${Math.round(more / MIB)} MiB more`);
    },
  );
}

/** The replacement of the graph file, and the message about it. */
const GRAPHS: Readonly<Record<string, readonly [put: (path: string) => unknown, said: RegExp]>> = {
  "a FIFO": [
    (path) => new Deno.Command("mkfifo", { args: [path] }).output(),
    /model\.onnx is a FIFO, a socket or a device/,
  ],
  "a socket": [
    (path) => Deno.listen({ transport: "unix", path }),
    /model\.onnx is a FIFO, a socket or a device/,
  ],
  "a device": [
    (path) => Deno.symlink("/dev/zero", path),
    /model\.onnx is a FIFO, a socket or a device/,
  ],
  "8 million fields": [
    (path) => Deno.writeFile(path, new Uint8Array(16_000_000).map((_, at) => at % 2 ? 0 : 0x42)),
    /model\.onnx is not a valid graph: .* more than 500000 fields/,
  ],
};

for (const [name, [put, said]] of Object.entries(GRAPHS)) {
  Deno.test(`a model's graph that is ${name} is refused with a reason`, {
    ignore: Deno.build.os === "windows",
  }, async () => {
    await using folder = await ModelFolder.create();
    await folder.writeConfig(JSON.stringify(ModelFolder.readConfig("hearth-demo-chat")));
    await Deno.remove(join(folder.path, "onnx"), { recursive: true });
    await Deno.mkdir(join(folder.path, "onnx"));
    const listener = await put(join(folder.path, "onnx", "model.onnx"));
    await using hearth = new HearthProcess([...CPU, "-m", folder.path, "--dtype", "fp32"]);
    await assert.rejects(hearth.ready());
    await hearth.logged(said);
    if (listener && typeof listener === "object" && "close" in listener) {
      (listener as Deno.Listener).close();
    }
  });
}

Deno.test("a graph that ONNX Runtime refuses is one line of the log, without a stack", async () => {
  await using folder = await ModelFolder.create("hearth-demo-matting");
  await folder.writeConfig(JSON.stringify(ModelFolder.readConfig("hearth-demo-matting")));
  const graph = join(folder.path, "onnx", "model.onnx");
  const bytes = await Deno.readFile(graph);
  const text = new TextDecoder("latin1").decode(bytes);
  for (const { index } of text.matchAll(/".Conv/gs)) bytes.set([0x78], index + 5);
  await Deno.remove(join(folder.path, "onnx"), { recursive: true });
  await Deno.mkdir(join(folder.path, "onnx"));
  await Deno.writeFile(graph, bytes);
  const run = await runHearth(["run", folder.path, "-i", PHOTO, "--device", "cpu"]);
  assert.equal(run.code, 1);
  assert.match(run.stderr, /ERROR .*ONNX Runtime cannot open a graph of this model: .*Conx/);
  assert.doesNotMatch(run.stderr, / {4}at /);
});
