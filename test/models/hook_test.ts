/** transformers.js on our ONNX Runtime. */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { findModelFolder, readGoldens } from "../fixtures/engine/goldens.ts";
import { loadWithModels, makeSessions } from "../fixtures/engine/transformers_sessions.ts";

const FOLDER = findModelFolder("hearth-demo-chat")!;

for (const runtime of ["native", "web"] as const) {
  Deno.test(`loadWithModels() runs transformers.js's model classes on our ${runtime} runtime, beside our own sessions`, () =>
    assertGenerates(new CpuBackend({ choice: runtime })));
}

async function assertGenerates(backend: CpuBackend): Promise<void> {
  const transformers = await loadWithModels({
    modelsFolder: dirname(FOLDER),
    openModel: makeSessions(backend),
  });
  const model = await transformers.AutoModelForCausalLM.from_pretrained("hearth-demo-chat", {
    dtype: "fp32",
    device: "auto",
  });
  const session = await backend.openSession(await Deno.readFile(`${FOLDER}/onnx/model.onnx`));
  const golden = readGoldens(FOLDER)[0]!;
  const row = (values: readonly number[]) =>
    new transformers.Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  // deno-lint-ignore no-explicit-any -- its declaration wants every option there is
  const options: any = {
    inputs: row(golden.promptIds),
    attention_mask: row(golden.promptIds.map(() => 1)),
    max_new_tokens: golden.completionIds.length,
    do_sample: false,
  };
  const generated = await model.generate(options) as { tolist(): bigint[][] };
  const ids = generated.tolist()[0]!.map(Number).slice(golden.promptIds.length);
  assert.deepEqual(ids, golden.completionIds);
  await session.release();
  await model.dispose();
}
