/**
 * Computes the single-node graphs with which image processors of transformers.js resize and slice tensors. A runtime
 * for them would take seconds to start, and a hundred megabytes in each image preprocessing thread.
 *
 * @see https://onnx.ai/onnx/operators/onnx__Resize.html (mode linear, coordinates half_pixel)
 * @see https://onnx.ai/onnx/operators/onnx__Slice.html
 * @module
 */
import { Tensor, type Tensors } from "./ort.ts";
import { countElements } from "../../graph/file/tensor.ts";
import { type Node, readStringAttribute } from "../../graph/file/proto.ts";
import { readModel } from "../../graph/file/proto_read.ts";

/** Larger graphs are not single operators. */
const MAX_BYTES = 1024;

/** Runs one operator. */
interface TensorOp {
  run(feeds: Tensors): Promise<Tensors>;
}

/** Opens the operator of a graph with a single known node; `undefined` for all other graphs. */
export async function openTensorOp(model: Uint8Array): Promise<TensorOp | undefined> {
  if (model.length > MAX_BYTES) return undefined;
  const { graph } = await readModel({
    size: () => Promise.resolve(model.length),
    read: (_file, offset, into) => {
      into.set(model.subarray(offset, offset + into.length));
      return Promise.resolve();
    },
  }, "operator");
  const [node, ...more] = graph.nodes;
  if (node === undefined || more.length > 0 || graph.initializers.length > 0) return undefined;
  const compute = findKernel(node);
  if (compute === undefined) return undefined;
  return {
    run: (feeds) =>
      Promise.try(() => ({
        [node.outputs[0]!]: compute(node.inputs.map((name) => feeds[name])),
      })),
  };
}

type Kernel = (inputs: readonly (Tensor | undefined)[]) => Tensor;

function findKernel(node: Node): Kernel | undefined {
  if (node.opType === "Slice") {
    return ([x, starts, ends, axes, steps]) =>
      slice(x!, {
        starts: ints(starts!),
        ends: ints(ends!),
        axes: ints(axes!),
        steps: ints(steps!),
      });
  }
  const [, region, scales, sizes] = node.inputs;
  const isPlain = region === "" && scales === "" && sizes !== undefined &&
    node.attributes.length === 1;
  if (node.opType !== "Resize" || readStringAttribute(node, "mode") !== "linear" || !isPlain) {
    return undefined;
  }
  return ([x, , , size]) => resize(x!, ints(size!));
}

function ints({ data }: Tensor): number[] {
  return Array.from(data as BigInt64Array, Number);
}

/** Resizes f32 `[n, channels, height, width]` to another height and width. */
function resize(x: Tensor, dims: readonly number[]): Tensor {
  const [batch, channels, fromHeight, fromWidth] = x.dims as [number, number, number, number];
  const [, , height, width] = dims as [number, number, number, number];
  if (dims[0] !== batch || dims[1] !== channels) {
    throw new RangeError(`Only height and width can be resized, not [${x.dims}] to [${dims}].`);
  }
  const from = x.data as Float32Array;
  const into = new Float32Array(batch * channels * height * width);
  const across = indexes(fromWidth, width);
  let to = 0;
  const down = indexes(fromHeight, height);
  for (let plane = 0; plane < batch * channels; plane++) {
    for (let row = 0; row < height; row++) {
      const upper = (plane * fromHeight + down.first[row]!) * fromWidth;
      const lower = (plane * fromHeight + down.second[row]!) * fromWidth;
      const weight = down.weight[row]!;
      for (let column = 0; column < width; column++) {
        const [left, right] = [across.first[column]!, across.second[column]!];
        const part = across.weight[column]!;
        const above = from[upper + left]! * (1 - part) + from[upper + right]! * part;
        const below = from[lower + left]! * (1 - part) + from[lower + right]! * part;
        into[to++] = above * (1 - weight) + below * weight;
      }
    }
  }
  return new Tensor("float32", into, [...dims]);
}

/** Computes for each index of the result the two source indices around it, and the second one's weight, 0 to 1. */
function indexes(from: number, to: number) {
  const [first, second] = [new Int32Array(to), new Int32Array(to)];
  const weight = new Float32Array(to);
  for (let i = 0; i < to; i++) {
    const index = Math.min(Math.max((i + 0.5) * from / to - 0.5, 0), from - 1);
    first[i] = Math.floor(index);
    second[i] = Math.min(first[i]! + 1, from - 1);
    weight[i] = index - first[i]!;
  }
  return { first, second, weight };
}

/** Slices a float tensor, with steps of one. */
function slice(
  x: Tensor,
  { starts, ends, axes, steps }: {
    readonly starts: readonly number[];
    readonly ends: readonly number[];
    readonly axes: readonly number[];
    readonly steps: readonly number[];
  },
): Tensor {
  if (steps.some((step) => step !== 1)) {
    throw new RangeError(`Only steps of 1 can be sliced, not [${steps}].`);
  }
  const begin = x.dims.map(() => 0);
  const end = [...x.dims];
  axes.forEach((axis, i) => {
    const size = x.dims[axis]!;
    const clip = (index: number) => Math.min(Math.max(index < 0 ? index + size : index, 0), size);
    begin[axis] = clip(starts[i]!);
    end[axis] = Math.max(begin[axis]!, clip(ends[i]!));
  });
  const dims = x.dims.map((_, axis) => end[axis]! - begin[axis]!);
  const from = x.data as Float32Array;
  const into = new Float32Array(countElements(dims));
  const last = x.dims.length - 1;
  let to = 0;
  const copy = (axis: number, offset: number) => {
    for (let i = begin[axis]!; i < end[axis]!; i++) {
      const at = offset * x.dims[axis]! + i;
      if (axis < last) copy(axis + 1, at);
      else {
        into.set(from.subarray(at, at + dims[last]!), to);
        to += dims[last]!;
        return;
      }
    }
  };
  copy(0, 0);
  return new Tensor("float32", into, dims);
}
