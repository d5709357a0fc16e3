/**
 * Compares texts packed one after the other with texts padded to the longest: the same graph, weights, device and
 * texts, alternating in one process, medians of several rounds.
 *
 *     deno task bench packing
 *     deno run -A --no-check test/bench/packing_bench.ts cpu|webgpu
 *
 * @module
 */
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openDevice } from "../../src/gpu/device.ts";
import type { EncodedText } from "../../src/models/embedding/encoder_tokenizer.ts";
import { PackedEncoder } from "../../src/models/embedding/packed_encoder.ts";
import { PaddedEncoder } from "../../src/models/embedding/whole_encoders.ts";
import { keepOutput } from "../../src/models/folder/graph_file.ts";
import { makePoolingTail, poolTexts } from "../../src/models/embedding/pooling.ts";
import type { Encoder } from "../../src/models/embedding/text_batcher.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { cutEncoder } from "../../src/graph/cut/cut_graph.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { median, printTable, time } from "./report.ts";

const HIDDEN = "last_hidden_state";
const LONGEST_TEXT = 512;

/** Lengths of the texts of a batch. */
const BATCHES: Readonly<Record<string, readonly number[]>> = {
  "1 text of 9 tokens": [9],
  "1 text of 200 tokens": [200],
  "32 texts of 16 tokens": Array(32).fill(16),
  "4 texts of 200 tokens": Array(4).fill(200),
  "10 texts of 5 to 400 tokens": [5, 20, 60, 100, 150, 200, 250, 300, 350, 400],
  "1 text of 400 tokens and 20 of 9": [400, ...Array(20).fill(9)],
};

function makeText(length: number): EncodedText {
  return { ids: Array.from({ length }, (_, i) => 5 + (i * 7919) % 2000) };
}

async function openBoth(
  backend: Backend,
): Promise<Readonly<Record<"packed" | "padded", Encoder>>> {
  await using files = new FolderFiles(`${findModelFolder("hearth-demo-embed")}/onnx`);
  const model = await readModel(files, "model.onnx");
  const wanted = `${HIDDEN}/float32`;
  const result = cutEncoder(keepOutput(model, HIDDEN, wanted), {
    wanted,
    tail: makePoolingTail,
    padTokenId: 0,
    contextLength: LONGEST_TEXT,
  });
  if ("refused" in result) throw new Error(result.refused);
  const packed = await PackedEncoder.open(result.cut, {
    ...{ backend, files },
    summary: { kind: "sums", modes: ["mean"] },
    longestText: LONGEST_TEXT,
  });
  const output = { name: HIDDEN, pooling: ["mean"] } as const;
  const padded = await PaddedEncoder.open(poolTexts(model, output), {
    ...{ backend, files, padTokenId: 0 },
    pooling: output.pooling,
  });
  return { packed, padded };
}

async function benchBackend(backend: Backend, rounds: number): Promise<string[][]> {
  const { packed, padded } = await openBoth(backend);
  const rows: string[][] = [];
  for (const [what, lengths] of Object.entries(BATCHES)) {
    const texts = lengths.map(makeText);
    const times: Record<string, number[]> = { packed: [], padded: [] };
    for (let round = -1; round < rounds; round++) {
      for (const [name, encoder] of Object.entries({ packed, padded })) {
        const ms = await time(() => encoder.run(texts));
        // The first round compiles and fills caches.
        if (round >= 0) times[name]!.push(ms);
      }
    }
    const [ours, theirs] = [median(times["packed"]!), median(times["padded"]!)];
    rows.push([
      `${backend.adapter}: ${what}`,
      ours.toFixed(2),
      theirs.toFixed(2),
      `${(theirs / ours).toFixed(1)}×`,
    ]);
  }
  return rows;
}

if (import.meta.main) {
  const chosen = Deno.args[0];
  const rows: string[][] = [];
  if (chosen !== "webgpu") rows.push(...await benchBackend(new CpuBackend(), 15));
  const gpu = chosen === "cpu" ? undefined : await openDevice({ allowFallback: true });
  if (gpu) rows.push(...await benchBackend(await WebGpuBackend.create(gpu), 4));
  printTable(["a batch, ms", "packed", "padded", "ratio"], rows);
  Deno.exit(0);
}
