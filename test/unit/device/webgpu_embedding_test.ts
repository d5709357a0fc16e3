/** Rows looked up on the CPU equal those of ONNX Runtime. */
import assert from "node:assert/strict";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import type { GpuContext } from "../../../src/gpu/device.ts";
import { Readback } from "../../../src/gpu/readback.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { type GraphSession, Tensor } from "../../../src/device/ort/ort.ts";
import { makeNode, type Node, type Tensor as Constant } from "../../../src/graph/file/proto.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { buildModel, constant } from "../../fixtures/graphs/onnx_builder.ts";
import { gpuTest, HAS_F16 } from "../../fixtures/engine/gpu.ts";

const [ROWS, WIDTH, BLOCK] = [300, 96, 32];
const IDS = [0, 299, 7, 7, 131];

type FloatType = "float32" | "float16";

interface Case {
  readonly nodes: readonly Node[];
  readonly constants: readonly Constant[];
}

function floats(count: number, dtype: FloatType) {
  const values = Array.from({ length: count }, (_, i) => Math.sin(i * 12.9898) / 8);
  return dtype === "float16" ? Float16Array.from(values) : Float32Array.from(values);
}

function bytes(count: number): Uint8Array {
  return Uint8Array.from({ length: count }, (_, i) => Math.imul(i, 2654435761) >>> 24);
}

function quantized(dtype: FloatType, bits: 4 | 8, { zeros }: { zeros: boolean }): Case {
  const numBlocks = WIDTH / BLOCK;
  const zeroBytes = Math.ceil(numBlocks * bits / 8);
  const inputs = ["table", "ids", "scales", ...(zeros ? ["zeros"] : [])];
  return {
    nodes: [makeNode("GatherBlockQuantized", inputs, ["y"], {
      domain: "com.microsoft",
      attributes: { bits, block_size: BLOCK, gather_axis: 0, quantize_axis: 1 },
    })],
    constants: [
      constant("table", [ROWS, WIDTH * bits / 8], bytes(ROWS * WIDTH * bits / 8)),
      constant("scales", [ROWS, numBlocks], floats(ROWS * numBlocks, dtype)),
      ...(zeros ? [constant("zeros", [ROWS, zeroBytes], bytes(ROWS * zeroBytes))] : []),
    ],
  };
}

const CASES: Readonly<Record<string, (dtype: FloatType) => Case>> = {
  "Gather": (dtype) => ({
    nodes: [makeNode("Gather", ["table", "ids"], ["y"])],
    constants: [constant("table", [ROWS, WIDTH], floats(ROWS * WIDTH, dtype))],
  }),
  "Gather and the operators after it": (dtype) => ({
    nodes: [
      makeNode("Gather", ["table", "ids"], ["rows"]),
      makeNode("Mul", ["rows", "factor"], ["y"]),
    ],
    constants: [
      constant("table", [ROWS, WIDTH], floats(ROWS * WIDTH, dtype)),
      constant("factor", [WIDTH], floats(WIDTH, dtype)),
    ],
  }),
  "Gather in half precision and a cast": (dtype) => ({
    nodes: [
      makeNode("Gather", ["table", "ids"], ["rows"]),
      makeNode("Cast", ["rows"], ["y"], { attributes: { to: dtype === "float16" ? 10 : 1 } }),
    ],
    constants: [constant("table", [ROWS, WIDTH], floats(ROWS * WIDTH, "float16"))],
  }),
  "GatherBlockQuantized of 4 bits": (dtype) => quantized(dtype, 4, { zeros: false }),
  "GatherBlockQuantized of 8 bits": (dtype) => quantized(dtype, 8, { zeros: false }),
  "GatherBlockQuantized of 8 bits with zero points": (dtype) =>
    quantized(dtype, 8, { zeros: true }),
};

async function withModel(
  { nodes, constants }: Case,
  dtype: FloatType,
  run: (path: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const graph = buildModel({
      nodes,
      inputs: [["ids", "int64", [1, "tokens"]]],
      outputs: [["y", dtype, [1, "tokens", WIDTH]]],
      initializers: constants,
    });
    await Deno.writeFile(`${folder}/model.onnx`, graph);
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function idsTensor(ids: readonly number[]): Tensor {
  return new Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]);
}

/** Looks up the rows of {@linkcode IDS}. @returns their bytes in hexadecimal. */
async function lookUp(
  gpu: GpuContext,
  session: GraphSession,
  destination?: Tensor,
): Promise<string> {
  const { y } = await session.run({ ids: idsTensor(IDS) }, destination && { y: destination });
  assert.deepEqual(y!.dims, [1, IDS.length, WIDTH]);
  const size = y!.size * (y!.type === "float16" ? 2 : 4);
  const readback = await Readback.create(gpu, { maxBytes: size });
  const range = { buffer: y!.gpuBuffer as GPUBuffer, offset: 0, size };
  const found = await readback.read(gpu.device.createCommandEncoder(), [range]);
  readback.dispose();
  if (destination === undefined) y!.dispose();
  return found.toHex();
}

for (const [name, makeCase] of Object.entries(CASES)) {
  for (const dtype of ["float32", "float16"] as const) {
    gpuTest(
      `WebGpuBackend.openEmbedding() looks up the same rows as ONNX Runtime: ${name} in ${dtype}`,
      async (gpu) => {
        await withModel(makeCase(dtype), dtype, async (folder) => {
          const backend = await WebGpuBackend.create(gpu);
          const files = new FolderFiles(folder);
          const model = await readModel(files, "model.onnx");
          const theirs = await backend.openModel(model, files);
          const ours = await backend.openEmbedding(model, files);
          // The embedding has opened the file for itself.
          await files[Symbol.asyncDispose]();
          assert.deepEqual(ours.inputs.map(({ name }) => name), ["ids"]);
          assert.equal(ours.outputs[0]!.type, dtype);
          assert.equal(ours.outputs[0]!.shape.at(-1), WIDTH);

          const wanted = await lookUp(gpu, theirs);
          assert.equal(await lookUp(gpu, ours), wanted);
          const storage = backend.allocate(IDS.length * WIDTH * 4);
          const destination = storage.tensor(dtype, [1, IDS.length, WIDTH]);
          assert.equal(await lookUp(gpu, ours, destination), wanted);
          assert.equal(await lookUp(gpu, ours, destination), wanted, "rows from the cache");

          for (const id of [-1, ROWS]) {
            await assert.rejects(ours.run({ ids: idsTensor([0, id]) }), {
              name: "RangeError",
              message: `Token ${id} has no embedding: the table has ${ROWS} rows.`,
            });
          }
          await ours.release();
          await theirs.release();
          storage.dispose();
        });
      },
      { ignore: dtype === "float16" && !HAS_F16 },
    );
  }
}

gpuTest(
  "WebGpuBackend.openEmbedding() reports a file that ends within the table",
  async (gpu) => {
    await withModel(CASES["Gather"]!("float32"), "float32", async (folder) => {
      const backend = await WebGpuBackend.create(gpu);
      await using files = new FolderFiles(folder);
      const model = await readModel(files, "model.onnx");
      await Deno.truncate(`${folder}/model.onnx`, 50_000);
      await assert.rejects(backend.openEmbedding(model, files), {
        name: "StartupError",
        message: /ends at byte 50000, but the graph needs 115200 bytes/,
      });
    });
  },
);

// ONNX Runtime's WebGPU kernel refuses packed zero points, which its CPU kernel and exporters support.
gpuTest(
  "WebGpuBackend.openEmbedding() subtracts packed zero points from 4-bit values",
  async (gpu) => {
    const form = quantized("float32", 4, { zeros: true });
    await withModel(form, "float32", async (folder) => {
      const backend = await WebGpuBackend.create(gpu);
      await using files = new FolderFiles(folder);
      const session = await backend.openEmbedding(await readModel(files, "model.onnx"), files);
      const [values, zeros] = [bytes(ROWS * WIDTH / 2), bytes(ROWS * 2)];
      const scales = floats(ROWS * 3, "float32");
      const nibble = (packed: Uint8Array, at: number) => (packed[at >> 1]! >> (at % 2 * 4)) & 15;
      const expected = IDS.flatMap((id) =>
        Array.from({ length: WIDTH }, (_, i) => {
          const block = Math.floor(i / BLOCK);
          const zero = nibble(zeros.subarray(2 * id), block);
          return (nibble(values, id * WIDTH + i) - zero) * scales[3 * id + block]!;
        })
      );
      const wanted = new Uint8Array(Float32Array.from(expected).buffer).toHex();
      assert.equal(await lookUp(gpu, session), wanted);
      await session.release();
    });
  },
);
