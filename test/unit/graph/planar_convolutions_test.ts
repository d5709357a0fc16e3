import assert from "node:assert/strict";
import { openSession, Tensor } from "../../../src/device/ort/ort.ts";
import { makeConvolutionsPlanar } from "../../../src/graph/rewrite/cpu_graph.ts";
import type { ModelProto } from "../../../src/graph/file/proto.ts";
import { writeModel } from "../../../src/graph/file/proto_codec.ts";
import { decodeModel } from "../../fixtures/graphs/decode_model.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { gelu } from "../../fixtures/graphs/graph_layers.ts";

const [WIDTH, LENGTH] = [32, 37];

/** A residual block of 64 channels with a dilated convolution, twice as long afterwards, and one of few channels. */
async function buildVocoder(): Promise<ModelProto> {
  const graph = new GraphBuilder();
  const conv = (
    input: string,
    { from, to, dilation }: Record<"from" | "to" | "dilation", number>,
  ) =>
    graph.add("Conv", [input, graph.weights([to, from, 3], 0.2), graph.weights([to], 0.1)], {
      attributes: { kernel_shape: [3], pads: [dilation, dilation], dilations: [dilation] },
    });
  const leaky = (input: string) =>
    graph.add("LeakyRelu", [input], { attributes: { alpha: { float: 0.1 } } });
  const wide = gelu(graph, conv("x", { from: WIDTH, to: 64, dilation: 1 }));
  const sum = graph.add("Add", [wide, conv(leaky(wide), { from: 64, to: 64, dilation: 3 })]);
  const longer = graph.add("ConvTranspose", [leaky(sum), graph.weights([64, 16, 4], 0.2)], {
    attributes: { kernel_shape: [4], strides: [2], pads: [1, 0], output_padding: [1] },
  });
  // A norm sees series.
  const mean = graph.add("ReduceMean", [longer], { attributes: { axes: [2] } });
  const narrow = conv(graph.add("Sub", [longer, mean]), { from: 16, to: 16, dilation: 1 });
  graph.add("Tanh", [narrow], { outputs: ["y"] });
  graph.add("Identity", [sum], { outputs: ["sum"] });
  return await decodeModel(graph.build({
    inputs: [["x", "float32", [1, WIDTH, "length"]]],
    outputs: [["y", "float32", [1, 16, "longer"]], ["sum", "float32", [1, 64, "length"]]],
  }));
}

async function run(model: ModelProto, runtime: "native" | "web") {
  const session = await openSession(
    writeModel(model),
    runtime === "native" ? { runtime, threads: 1 } : { runtime },
  );
  const x = Float32Array.from({ length: WIDTH * LENGTH }, (_, i) => Math.sin(i * 1.7));
  const outputs = await session.run({ x: new Tensor("float32", x, [1, WIDTH, LENGTH]) });
  await session.release();
  return outputs;
}

/** Ranks of the kernels of the convolutions, in their order. */
function kernelRanks({ graph }: ModelProto): number[] {
  const ranks = new Map(graph.initializers.map(({ name, shape }) => [name, shape.length]));
  return graph.nodes.filter(({ opType }) => opType.startsWith("Conv"))
    .map(({ inputs }) => ranks.get(inputs[1]!)!);
}

Deno.test("makeConvolutionsPlanar() changes neither what a graph computes nor its shapes", async () => {
  const model = await buildVocoder();
  const planar = makeConvolutionsPlanar(model, { threads: 1 });
  assert.deepEqual(kernelRanks(planar), [4, 4, 4, 3]);
  const before = await run(model, "web");
  for (const runtime of ["native", "web"] as const) {
    const after = await run(planar, runtime);
    for (const name of ["y", "sum"]) {
      assert.deepEqual(after[name]!.dims, before[name]!.dims);
      const expected = before[name]!.data as Float32Array;
      (after[name]!.data as Float32Array).forEach((value, i) =>
        assert.ok(Math.abs(value - expected[i]!) < 1e-5, `${name}[${i}]: ${value}, ${expected[i]}`)
      );
    }
  }
});

Deno.test("makeConvolutionsPlanar() leaves tensors as images from one convolution to the next", async () => {
  const { graph } = makeConvolutionsPlanar(await buildVocoder(), { threads: 1 });
  const reshapes = graph.nodes.filter(({ opType }) => opType === "Reshape").map(({ inputs }) =>
    inputs[0]
  );
  // The input, the longer series that the norm sees, and an output.
  assert.equal(reshapes.length, 3, reshapes.join(", "));
});

Deno.test("makeConvolutionsPlanar() leaves convolutions alone that have no work for all threads", async () => {
  assert.deepEqual(kernelRanks(makeConvolutionsPlanar(await buildVocoder(), { threads: 2 })), [
    3,
    3,
    4,
    3,
  ]);
});

Deno.test("makeConvolutionsPlanar() returns a graph without such convolutions as it is", async () => {
  const graph = new GraphBuilder();
  graph.add("Relu", ["x"], { outputs: ["y"] });
  const model = await decodeModel(graph.build({
    inputs: [["x", "float32", [1, WIDTH, "length"]]],
    outputs: [["y", "float32", [1, WIDTH, "length"]]],
  }));
  assert.equal(makeConvolutionsPlanar(model, { threads: 1 }), model);
});
