/** Damaged, truncated and inconsistent graphs on the native runtime, where a crash would end the process. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const GRAPHS = [
  "hearth-demo-chat/onnx/model_q4.onnx",
  "hearth-demo-chat/onnx/model_q4f16.onnx",
  "hearth-demo-embed/onnx/model_quantized.onnx",
  "hearth-demo-ocr/onnx/rec_en.onnx",
  "hearth-demo-asr/onnx/encoder_model_fp16.onnx",
  "hearth-demo-matting/onnx/model_fp16.onnx",
  "hearth-demo-vision/onnx/decoder_model_merged_q4.onnx",
];
const NUM_MUTATIONS = 210;

Deno.test(`${NUM_MUTATIONS} damaged graphs are refused, or run, and none ends the process`, async () => {
  const script = new URL("../../fixtures/graphs/open_mutations.ts", import.meta.url);
  const paths = GRAPHS.map((path) =>
    fileURLToPath(new URL(`../../../models/${path}`, import.meta.url))
  );
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--no-check", script.href],
      ...[JSON.stringify(paths), "0", String(NUM_MUTATIONS)],
    ],
    stdout: "piped",
    stderr: "piped",
  });
  const { code, stdout, stderr } = await child.output();
  const lines = new TextDecoder().decode(stdout).trim().split("\n");
  assert.equal(code, 0, `${lines.at(-1)}\n${new TextDecoder().decode(stderr)}`);
  const outcomes = lines.filter((line) => !line.endsWith(" begins"));
  assert.equal(outcomes.length, NUM_MUTATIONS);
  const refused = outcomes.filter((line) => /^\d+ refused: ./.test(line));
  assert.ok(refused.length > NUM_MUTATIONS / 2, `${refused.length} refused`);
});
