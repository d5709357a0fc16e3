/**
 * Real weights, every dtype, both backends: greedy completions equal those of independent references.
 */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import type { SampledToken } from "../../src/decoder/decoder.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import {
  type EngineOptions,
  generate,
  withEngine,
  withWholeEngine,
} from "../fixtures/engine/generate.ts";
import {
  findModelFolder,
  type GoldenCompletion,
  readGoldens,
  unlessThere,
} from "../fixtures/engine/goldens.ts";
import { writeEmbeddingFolder } from "../fixtures/models/embedding_folder.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";

/** If the two best log-probabilities are closer than this, f16 may choose the other. */
const F16_TIE = 0.05;

/**
 * Number of tokens to generate on WebGPU, where a software adapter needs 10 ms per step. With the
 * prompt they fill four blocks of the cache; more blocks would test nothing else.
 */
const SHORT = 48;
/** Like `SHORT`, for the other dtypes, which read the same cache. */
const SHORTER = 24;
/** Like `SHORT`, for an uncut graph, whose steps take 100 ms because its cache grows with each. */
const SHORTEST = 4;
/** Number of completions by an uncut graph, which runs one sequence at a time. */
const FEW = 2;

const CASES: readonly { model: string; dtypes: readonly Dtype[] }[] = [
  { model: "hearth-demo-chat", dtypes: ["fp32", "fp16", "q4", "q4f16"] },
  { model: "stories260k-llama", dtypes: ["fp32", "fp16"] },
  { model: "chat-gptneo-3m", dtypes: ["fp32", "q4", "q4f16"] },
];

/** @returns whether a near tie had the other result, after which the texts diverge. */
function assertGreedy(
  golden: GoldenCompletion,
  tokens: readonly SampledToken[],
  tie: number,
): boolean {
  const ids = tokens.map(({ tokenId }) => tokenId);
  const at = ids.findIndex((id, index) => id !== golden.completionIds[index]);
  if (at < 0) {
    assert.equal(ids.length, golden.completionIds.length);
    return false;
  }
  const [first, second] = tokens[at]!.top;
  const rivals = [first!.tokenId, second!.tokenId];
  const gap = first!.logprob - second!.logprob;
  assert.ok(
    rivals.includes(golden.completionIds[at]!) && gap < tie,
    `${golden.name}: token ${at} is ${ids[at]}, wanted ${
      golden.completionIds[at]
    }; the best two are ${gap} apart`,
  );
  return true;
}

interface GoldenOptions extends EngineOptions {
  /** Number of tokens to compare per completion; all if absent. */
  readonly maxTokens?: number;
  /** Number of completions to compare; all if absent. */
  readonly maxCompletions?: number;
}

async function assertGoldens(
  { maxTokens, maxCompletions, ...options }: GoldenOptions,
  runEngine: typeof withEngine = withEngine,
): Promise<void> {
  const { dtype, folder } = options;
  const tie = dtype.endsWith("16") ? F16_TIE : 0;
  const goldens = readGoldens(folder).slice(0, maxCompletions).map((golden) => ({
    ...golden,
    completionIds: golden.completionIds.slice(0, maxTokens),
  }));
  await runEngine(options, async (engine) => {
    const completions = await Promise.all(goldens.map((golden) =>
      generate(engine, {
        tokens: golden.promptIds,
        maxTokens: golden.completionIds.length,
        topLogprobs: 2,
      })
    ));
    let numTies = 0;
    goldens.forEach((golden, i) => {
      numTies += Number(assertGreedy(golden, completions[i]!.tokens, tie));
    });
    if (numTies === 0) return;
    // deno-lint-ignore no-console -- the count is part of the result
    console.log(
      `${numTies} of ${goldens.length} completions left the reference at a tie closer than ${tie}`,
    );
  });
}

for (const { model, dtypes } of CASES) {
  const folder = findModelFolder(model);
  for (const dtype of dtypes) {
    const name = `${model} ${dtype} completes its goldens greedily`;
    if (!folder) {
      Deno.test.ignore(
        `${name}${unlessThere(false, `models/${model}`, "weights of another architecture")}`,
        () => {},
      );
      continue;
    }
    const onCpu = (choice: "native" | "web") =>
      assertGoldens({ backend: new CpuBackend({ choice }), folder, dtype });
    Deno.test(`${name} on the CPU (native)`, () => onCpu("native"));
    // onnxruntime-web computes products of 4 bits and of half precision the same for every model.
    if (["fp32", "q4f16"].includes(dtype)) {
      Deno.test(`${name} on the CPU (web)`, () => onCpu("web"));
    }
    gpuTest(`${name} on WebGPU`, async (gpu) => {
      const maxTokens = dtype === "fp32" ? SHORT : SHORTER;
      await assertGoldens({ backend: await WebGpuBackend.create(gpu), folder, dtype, maxTokens });
    });
  }
}

cpuTest("WholeDecoder completes the goldens of hearth-demo-chat on the CPU", (backend) => {
  const folder = findModelFolder("hearth-demo-chat")!;
  return assertGoldens({ backend, folder, dtype: "fp32" }, withWholeEngine);
});

const ODD_VOCABULARY = findModelFolder("chat-gptneo-3m");
if (ODD_VOCABULARY) {
  gpuTest(
    "WholeDecoder completes the goldens of chat-gptneo-3m q4f16 on WebGPU",
    async (gpu) => {
      const backend = await WebGpuBackend.create(gpu);
      const options = { backend, folder: ODD_VOCABULARY, dtype: "q4f16" } as const;
      const few = { maxTokens: SHORTEST, maxCompletions: FEW };
      await assertGoldens({ ...options, ...few }, withWholeEngine);
    },
  );
}

/** A decoder that starts from embeddings, on the paged engine, for both backends. */
async function assertEmbeddingGoldens(backend: Backend, maxTokens?: number): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "hearth-embeddings-" });
  try {
    const source = findModelFolder("hearth-demo-chat")!;
    await writeEmbeddingFolder(source, folder);
    await Deno.copyFile(`${source}/golden.json`, `${folder}/golden.json`);
    await assertGoldens(
      { backend, folder, dtype: "fp32", ...maxTokens && { maxTokens } },
      (options, use) =>
        withEngine(options, async (engine) => {
          const { limits } = engine;
          assert.ok(limits.maxSequences > 1, "the graph was not cut");
          return await use(engine);
        }),
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

cpuTest(
  "PagedDecoder completes the goldens from embeddings on the CPU",
  (backend) => assertEmbeddingGoldens(backend),
);

gpuTest(
  "PagedDecoder completes the goldens from embeddings on WebGPU",
  async (gpu) => await assertEmbeddingGoldens(await WebGpuBackend.create(gpu), SHORTER),
);
