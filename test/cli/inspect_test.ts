import assert from "node:assert/strict";
import { runHearth } from "../fixtures/servers/hearth_process.ts";

const MODEL = new URL("../../models/hearth-demo-chat/", import.meta.url).pathname;

Deno.test("hearth inspect of a folder prints a line for each graph, and the segments of one of them", async () => {
  const { code, stdout: out } = await runHearth(["inspect", MODEL]);
  assert.equal(code, 0);
  for (const suffix of ["", "_fp16", "_q4", "_q4f16"]) {
    assert.match(
      out,
      new RegExp(`onnx/model${suffix}\\.onnx: cut into 5 segments around 4 attentions`),
    );
  }
  assert.match(out, /^segment 4: /m);
  assert.match(
    out,
    /^decoding {3}17 dispatches for 5 of 5 segments, 8 or more for attention, one submit$/m,
  );
  assert.deepEqual(out.match(/^ {4}GPU .*$/gm), [
    "    GPU  1 dispatch for decoding, 1 for prompts",
    ...Array(3).fill("    GPU  4 dispatches for decoding, 4 for prompts"),
    "    GPU  4 dispatches for decoding, 6 for prompts",
  ]);
});

Deno.test("hearth inspect says which segments a GPU leaves to ONNX Runtime, and why", async () => {
  const url = new URL("../fixtures/graphs/exports/gpt_neox_dynamo_18.onnx", import.meta.url);
  const folder = await Deno.makeTempDir();
  try {
    // No kernel computes Tan. In the file, the name of an operator follows its field tag and the name's length.
    const bytes = Array.from(await Deno.readFile(url), (byte) => String.fromCharCode(byte)).join(
      "",
    );
    const changed = bytes.replaceAll("\x22\x03Erf", "\x22\x03Tan");
    const path = `${folder}/model.onnx`;
    await Deno.writeFile(path, Uint8Array.from(changed, (char) => char.charCodeAt(0)));
    const { code, stdout: out } = await runHearth(["inspect", path]);
    assert.equal(code, 0);
    assert.match(
      out,
      /^decoding {3}3 dispatches for 1 of 3 segments, .*, 2 runs of ONNX Runtime$/m,
    );
    const [first, second, last] = out.match(/^ {4}GPU .*$/gm)!;
    // The first segment computes the cosines that the second one takes.
    assert.match(first!, /GPU {2}ONNX Runtime, always\. It has no kernel for Cos /);
    assert.match(second!, /GPU {2}ONNX Runtime, always\. It has no kernel for Tan /);
    assert.match(last!, /GPU {2}3 dispatches for decoding, 6 for prompts/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("hearth inspect of an encoder says how it is cut at its attention nodes", async () => {
  const folder = new URL("../../models/hearth-demo-embed/", import.meta.url).pathname;
  const { code, stdout: out } = await runHearth(["inspect", folder]);
  assert.equal(code, 0);
  assert.match(out, /onnx\/model\.onnx: cut into 3 segments around 2 attentions/);
  assert.match(out, /^segment 2: \d+ nodes, /m);
});

Deno.test("hearth inspect of a speech model's encoder says how it is cut at its attention nodes", async () => {
  const folder = new URL("../../models/hearth-demo-asr/", import.meta.url).pathname;
  const whole = await runHearth(["inspect", folder]);
  assert.match(whole.stdout, /onnx\/encoder_model\.onnx: cut into 4 segments around 3 attentions/);
  const { code, stdout: out } = await runHearth(["inspect", `${folder}onnx/encoder_model.onnx`]);
  assert.equal(code, 0);
  assert.match(out, /^segment 3: \d+ nodes, /m);
});

Deno.test("hearth inspect --json prints segments with the names of weights, not their values", async () => {
  const { code, stdout: out } = await runHearth(["inspect", "--json", MODEL]);
  assert.equal(code, 0);
  const graphs = JSON.parse(out);
  assert.equal(graphs.length, 4);
  assert.deepEqual(graphs[0].segments.map(({ index }: { index: number }) => index), [
    0,
    1,
    2,
    3,
    4,
  ]);
  assert.ok(graphs[0].segments[0].weights.includes("model.embed_tokens.weight"));
  const { heads, kvHeads, headDim, rotary } = graphs[1].attentions[0];
  assert.deepEqual({ heads, kvHeads, headDim }, { heads: 6, kvHeads: 2, headDim: 32 });
  assert.equal(rotary.dim, 32);
  assert.ok(out.length < 200_000);
});

Deno.test("hearth inspect of an OCR model says for each graph why it is not cut", async () => {
  const folder = new URL("../../models/hearth-demo-ocr/", import.meta.url).pathname;
  const { code, stdout, stderr } = await runHearth(["inspect", folder]);
  assert.equal(code, 1);
  assert.equal(stderr, "");
  const lines = stdout.trimEnd().split("\n");
  assert.equal(lines.length, 2, stdout);
  assert.match(lines[0]!, /onnx\/det\.onnx: not cut\. \S/);
  assert.match(lines[1]!, /onnx\/rec_en\.onnx: not cut\. \S/);
});

Deno.test("hearth inspect of a family with several graphs reads only the graphs that run", async () => {
  const source = new URL("../../models/hearth-demo-asr/", import.meta.url).pathname;
  const folder = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${folder}/onnx`);
    await Deno.copyFile(`${source}config.json`, `${folder}/config.json`);
    for (const graph of ["encoder_model", "decoder_model_merged"]) {
      await Deno.copyFile(`${source}onnx/${graph}.onnx`, `${folder}/onnx/${graph}.onnx`);
    }
    await Deno.copyFile(`${source}onnx/encoder_model.onnx`, `${folder}/onnx/other.onnx`);
    const { stdout } = await runHearth(["inspect", folder]);
    const graphs = stdout.split("\n").flatMap((line) =>
      /onnx\/(\w+)\.onnx: /.exec(line)?.[1] ?? []
    );
    assert.deepEqual(graphs, ["decoder_model_merged", "encoder_model"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("hearth inspect of a folder without a graph says what it looked for", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/config.json`, "{}");
    const { code, stderr: err } = await runHearth(["inspect", folder]);
    assert.equal(code, 1);
    assert.match(err, /no graph to inspect: it holds no onnx\/model\*\.onnx/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
