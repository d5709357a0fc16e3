import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { assertSameValues } from "../fixtures/engine/compare_values.ts";
import type { AttentionShape } from "../../kernels/attention/attention_shape.ts";
import { SimdAttention } from "../../kernels/attention/attention_simd.ts";
import {
  KernelThreads,
  STEP_POLLS,
  type ThreadsOptions,
} from "../../kernels/cpu/kernel_threads.ts";
import { SimdPackedAttention } from "../../kernels/attention/packed_attention_simd.ts";
import { selfBounds } from "../../kernels/attention/packed_attention.ts";
import { makeLayer } from "./attention_simd_case.ts";
import { makeNormal } from "./exact_sampling.ts";
import { makeStep } from "./paged_case.ts";
import { untilHelped } from "./until_helped.ts";

const SHAPE: AttentionShape = { heads: 6, kvHeads: 3, headSize: 64, blockSize: 16, elem: "f32" };
/** A step with decodes, a prompt, and the end of a prompt. */
const STEP = makeStep([
  ...[1, 40, 700].map((keys) => ({ queries: 1, keys })),
  { queries: 150, keys: 150 },
  { queries: 21, keys: 300 },
], 16);
const BOUNDS = selfBounds([1, 300, 17, 64]);
/** Time limit for helpers to take part. */
const PATIENCE_MS = 60_000;

function openPaged(threads?: KernelThreads, { step, numBlocks } = STEP): SimdAttention {
  const attention = new SimdAttention([makeLayer(SHAPE)], {
    ...step,
    numBlocks,
    maxTokens: step.numTokens,
    maxSequences: 5,
    threads,
  });
  const normal = makeNormal(1);
  const { q } = attention.inputs(0);
  for (let i = 0; i < q.length; i++) q[i] = normal();
  attention.begin(step);
  attention.write(0);
  return attention;
}

function openPacked(threads?: KernelThreads): SimdPackedAttention {
  const { write, attend } = makeLayer(SHAPE);
  const layer = { shape: SHAPE, ...write, ...attend, window: 0, isPacked: true };
  const attention = new SimdPackedAttention([layer], threads);
  attention.begin(BOUNDS);
  const normal = makeNormal(2);
  const { q } = attention.inputs(0);
  for (let i = 0; i < q.length; i++) q[i] = normal();
  return attention;
}

/** Calls `run` with threads that take part in any job, however small. */
function withThreads(
  numThreads: number,
  run: (threads: KernelThreads) => void,
  options: ThreadsOptions = {},
): void {
  const threads = new KernelThreads(numThreads, { minFlops: 0, ...options });
  try {
    run(threads);
  } finally {
    threads.dispose();
  }
}

/** Repeats a call until helpers have done 100 parts, or at least one part within 2,000 calls. */
function callUntilHelped(threads: KernelThreads, call: () => void): void {
  const end = performance.now() + PATIENCE_MS;
  for (let round = 0; round < 2000 || threads.numHelpedParts === 0; round++) {
    if (threads.numHelpedParts >= 100) return;
    assert(performance.now() < end, "helpers did too few parts in a minute");
    call();
  }
}

// Node's threads end some time after they were told to.
const options = { sanitizeResources: false, sanitizeOps: false };

Deno.test("helpers that poll for the next job also take parts of a small one", options, () => {
  // Helpers poll for about a second, since on a busy machine they get no core within the usual 100 µs.
  const threads = new KernelThreads(2, { polls: 10_000 * STEP_POLLS });
  try {
    const large = openPaged(threads);
    // A job that is too small to wake a helper.
    const small = openPaged(threads, makeStep([{ queries: 1, keys: 100 }], 16));
    callUntilHelped(threads, () => large.attend(0));
    const end = performance.now() + PATIENCE_MS;
    let isHelped = false;
    while (!isHelped && performance.now() < end) {
      large.attend(0);
      const before = threads.numHelpedParts;
      for (let i = 0; i < 50 && !isHelped; i++) {
        small.attend(0);
        isHelped = threads.numHelpedParts > before;
      }
    }
    assert(isHelped);
  } finally {
    threads.dispose();
  }
});

for (const numThreads of [2, 3, 4]) {
  Deno.test(
    `KernelThreads gives the same bits on ${numThreads} threads as on one`,
    options,
    () => {
      const paged = openPaged().attend(0).slice();
      const packed = openPacked().run(0).slice();
      withThreads(numThreads, (threads) => {
        const ours = openPaged(threads);
        callUntilHelped(threads, () => assertSameValues(ours.attend(0), paged));
        assert.equal(threads.numHelpers, numThreads - 1);
        const oursPacked = openPacked(threads);
        for (let i = 0; i < 50; i++) assertSameValues(oursPacked.run(0), packed);
        assertSameValues(ours.attend(0), paged);
      });
    },
  );
}

Deno.test("KernelThreads starts no helper for a small job", options, () => {
  const threads = new KernelThreads(4);
  const { step, numBlocks } = makeStep([{ queries: 1, keys: 30 }], 16);
  const attention = new SimdAttention([makeLayer(SHAPE)], {
    ...{ numBlocks, maxTokens: 1, maxSequences: 1, maxBlocksPerSequence: 4, threads },
  });
  attention.begin(step);
  attention.run(0);
  assert.equal(threads.numHelpers, 0);
});

Deno.test(
  "KernelThreads finishes a job whose helper gets stuck, and starts no helper after three losses",
  options,
  () => {
    const want = openPaged().attend(0).slice();
    const module = new URL("../fixtures/threads/stuck_kernel_thread.ts", import.meta.url);
    withThreads(2, (threads) => {
      const attention = openPaged(threads);
      // Each helper joins a job, gets stuck in it and is given up.
      for (let losses = 0; losses < 3;) {
        assertSameValues(attention.attend(0), want);
        if (threads.numHelpers === 0) losses++;
      }
      // After three losses, no more helpers are started.
      assertSameValues(attention.attend(0), want);
      assert.equal(threads.numHelpers, 0);
    }, { module, patienceMs: 50 });
  },
);

Deno.test("KernelThreads works alone if helpers do not start", options, async () => {
  const want = openPaged().attend(0).slice();
  const threads = new KernelThreads(3, { minFlops: 0, module: new URL("file:///nowhere.ts") });
  const attention = openPaged(threads);
  while (threads.numHelpers > 0 || !threads.isAlone) {
    assertSameValues(attention.attend(0), want);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assertSameValues(attention.attend(0), want);
  threads.dispose();
});

Deno.test("KernelThreads starts new helpers after idle ones have ended", options, async () => {
  const want = openPaged().attend(0).slice();
  const threads = new KernelThreads(3, { minFlops: 0, idleMs: 20 });
  const attention = openPaged(threads);
  const check = () => assertSameValues(attention.attend(0), want);
  // Five rounds, though three losses would end the use of helpers: those that end when idle do not count as lost.
  for (let round = 0; round < 5; round++) {
    await untilHelped(threads, threads.numHelpedParts + 1, check);
    while (threads.numHelpers > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert(!threads.isAlone);
  threads.dispose();
});

/** Lists the ids of this process's worker threads. */
function listWorkers(): Set<string> {
  const ids = [...Deno.readDirSync("/proc/self/task")].map(({ name }) => name);
  return new Set(ids.filter((id) => {
    try {
      return Deno.readTextFileSync(`/proc/self/task/${id}/comm`).startsWith("worker");
    } catch {
      return false;
    }
  }));
}

Deno.test("helpers of KernelThreads end after the thread that started them was terminated", {
  ...options,
  ignore: Deno.build.os !== "linux",
}, async () => {
  const before = listWorkers();
  const worker = new Worker(new URL("../fixtures/threads/helped_thread.ts", import.meta.url), {
    type: "module",
  });
  await new Promise((resolve) => worker.onmessage = resolve);
  const started = listWorkers().difference(before);
  assert.equal(started.size, 3, "the worker and its two helpers");
  worker.terminate();
  const patience = AbortSignal.timeout(60_000);
  while (listWorkers().intersection(started).size > 0) {
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
});

Deno.test(
  "KernelThreads starts new helpers after an object's dispose() has ended the old ones",
  options,
  () => {
    const want = openPaged().attend(0).slice();
    withThreads(2, (threads) => {
      for (let i = 0; i < 3; i++) {
        const attention = openPaged(threads);
        callUntilHelped(threads, () => assertSameValues(attention.attend(0), want));
        attention.dispose();
        assert.equal(threads.numHelpers, 0);
      }
    });
  },
);

Deno.test("KernelThreads frees the memory of disposed objects", options, async () => {
  const threads = new KernelThreads(2, { minFlops: 0 });
  const { step } = makeStep([{ queries: 32, keys: 32 }], 16);
  // The cache takes about 50 MiB.
  const limits = { ...step, maxTokens: 32, maxSequences: 1, numBlocks: 2048, threads };
  const round = async () => {
    const attention = new SimdAttention([makeLayer(SHAPE)], limits);
    // Writes the cache, so that its memory is really allocated.
    new Uint8Array(attention.inputs(0).q.buffer).fill(1, 2 ** 20, 44 * 2 ** 20);
    attention.begin(step);
    await untilHelped(threads, 1, () => attention.attend(0));
    attention.dispose();
    await new Promise((resolve) => setTimeout(resolve, 1));
  };
  for (let i = 0; i < 5; i++) await round();
  const before = Deno.memoryUsage().rss;
  for (let i = 0; i < 20; i++) await round();
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as () => void;
  const grownMiB = () => (Deno.memoryUsage().rss - before) / 2 ** 20;
  // Helpers end when they get a core, and their memory is collected later.
  for (let i = 0; i < 200 && grownMiB() >= 500; i++) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const grown = grownMiB();
  // Helpers that were told to end do not count as lost.
  assert(!threads.isAlone);
  threads.dispose();
  assert(grown < 500, `20 rounds of 50 MiB left ${grown.toFixed(0)} MiB`);
});

Deno.test("KernelThreads does not keep the process alive", async () => {
  const code = `
    import { KernelThreads } from "${new URL(
    "../../kernels/cpu/kernel_threads.ts",
    import.meta.url,
  )}";
    import { SimdAttention } from "${new URL(
    "../../kernels/attention/attention_simd.ts",
    import.meta.url,
  )}";
    import { makeLayer } from "${new URL("./attention_simd_case.ts", import.meta.url)}";
    import { makeStep } from "${new URL("./paged_case.ts", import.meta.url)}";
    const threads = new KernelThreads(3, { minFlops: 0 });
    const { step, numBlocks } = makeStep([{ queries: 64, keys: 64 }], 16);
    const shape = ${JSON.stringify(SHAPE)};
    const limits = { ...step, numBlocks, maxTokens: 64, maxSequences: 1, threads };
    const attention = new SimdAttention([makeLayer(shape)], limits);
    attention.begin(step);
    while (threads.numHelpedParts === 0) attention.run(0);
    console.log("helped");
  `;
  const path = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(path, code);
    const config = new URL("../../deno.json", import.meta.url).pathname;
    const { code: status, stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", "--config", config, path],
      stderr: "inherit",
    }).output();
    assert.equal(new TextDecoder().decode(stdout).trim(), "helped");
    assert.equal(status, 0);
  } finally {
    await Deno.remove(path);
  }
});
