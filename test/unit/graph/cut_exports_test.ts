import assert from "node:assert/strict";
import { assertSameAsWhole } from "./compare.ts";

const FOLDER = new URL("../../fixtures/graphs/exports/", import.meta.url);

/** Graphs that PyTorch exported (see the folder's script), and the expected result of the cut in each layer. */
const EXPORTS = {
  llama_script_17: { kvHeads: 2, windows: [undefined, undefined] },
  qwen3_dynamo_18: { kvHeads: 2, windows: [undefined, undefined] },
  gemma2_script_17: { kvHeads: 2, windows: [4, undefined], softcap: 50 },
  gemma3_dynamo_18: { kvHeads: 2, windows: [4, undefined] },
  gpt2_script_17: { kvHeads: 4, windows: [undefined, undefined] },
  opt_script_17: { kvHeads: 4, windows: [undefined, undefined] },
  mistral_dynamo_23: { kvHeads: 2, windows: [4, 4] },
} as const;

for (const [name, { kvHeads, windows, ...rest }] of Object.entries(EXPORTS)) {
  Deno.test(`cutGraph() of an export, ${name}: every token's logits equal the whole graph's`, async () => {
    const model = await Deno.readFile(new URL(`${name}.onnx`, FOLDER));
    const { attentions, segments, positions } = await assertSameAsWhole(model);
    assert.deepEqual(attentions.map(({ localWindow }) => localWindow), windows);
    const softcap = attentions[0]!.softcap;
    assert.equal(softcap && Math.round(softcap), "softcap" in rest ? rest.softcap : undefined);
    assert.deepEqual([attentions[0]!.heads, attentions[0]!.kvHeads], [4, kvHeads]);
    assert.deepEqual(positions!.shape, [1, "tokens"]);
    // No masks, caches or lengths remain in the segments.
    const crossing = segments.flatMap(({ inputs }) => inputs);
    for (const { name, dtype } of crossing) {
      if (dtype === "int64") assert.match(name, /^(input_ids|position_ids|logit_rows)$/);
      else assert.equal(dtype, "float32");
    }
  });
}
