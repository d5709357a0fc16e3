import assert from "node:assert/strict";
import type { TensorType } from "../../../src/graph/file/tensor.ts";
import { Evaluation } from "../../../src/graph/evaluate/evaluation.ts";
import type { Value } from "../../../src/graph/evaluate/value.ts";
import { GraphIndex } from "../../../src/graph/graph_index.ts";
import { Tensor, type Tensors } from "../../../src/device/ort/ort.ts";
import { type AttributeValue, makeNode } from "../../../src/graph/file/proto.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { buildModel, type Declared } from "../../fixtures/graphs/onnx_builder.ts";
import { inMemory } from "./test_decoder.ts";
import { openCpuSession } from "./cpu_session.ts";

/** An input: type, shape and elements, which are repeated to fill the shape. */
type Input = readonly [TensorType, readonly number[], readonly number[]];

interface Case {
  readonly op: string;
  readonly inputs: readonly (Input | undefined)[];
  readonly attributes?: Readonly<Record<string, AttributeValue>>;
  readonly outputs?: readonly TensorType[];
  readonly opset?: number;
  /** Whether only the result's shape is compared. */
  readonly shapeOnly?: boolean;
  readonly domain?: string;
}

const f = (shape: readonly number[], ...elements: number[]): Input => ["float32", shape, elements];
const i = (shape: readonly number[], ...elements: number[]): Input => ["int64", shape, elements];
const b = (shape: readonly number[], ...elements: number[]): Input => ["bool", shape, elements];

const matrix = f([2, 3], 1.5, -2, 0, 4, 0.25, -0.5);
const cube = f([2, 3, 4], ...Array.from({ length: 24 }, (_, n) => n - 7));

/** Each case is run by ONNX Runtime and by partial evaluation. */
const CASES: readonly Case[] = [
  ...[
    "Neg",
    "Abs",
    "Exp",
    "Tanh",
    "Sigmoid",
    "Relu",
    "Cos",
    "Sin",
    "Floor",
    "Ceil",
    "Sign",
    "Identity",
  ]
    .map((op) => ({ op, inputs: [matrix] })),
  ...["Sqrt", "Log", "Reciprocal"].map((op) => ({ op, inputs: [f([3], 0.5, 2, 9)] })),
  { op: "Not", inputs: [b([3], 1, 0, 1)], outputs: ["bool"] },
  { op: "IsNaN", inputs: [f([2], NaN, 1)], outputs: ["bool"] },
  { op: "IsInf", inputs: [f([3], Infinity, 1, -Infinity)], outputs: ["bool"] },
  { op: "Clip", inputs: [matrix, f([], -1), f([], 1)] },
  ...["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"].map((op) => ({
    op,
    inputs: [f([2, 1, 3], 1, 2, 3, 4, 5, 6), f([4, 1], 2, 0.5, 3, 1)],
  })),
  { op: "Div", inputs: [i([4], 7, -7, 9, -1), i([], 2)], outputs: ["int64"] },
  { op: "Mod", inputs: [i([4], 7, -7, 9, -1), i([], 3)], outputs: ["int64"] },
  { op: "Mod", inputs: [f([3], 7.5, -7.5, 1), f([], 2)], attributes: { fmod: 1 } },
  ...["And", "Or", "Xor"].map((op): Case => ({
    op,
    inputs: [b([4], 1, 1, 0, 0), b([4], 1, 0, 1, 0)],
    outputs: ["bool"],
  })),
  ...["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"].map((op): Case => ({
    op,
    inputs: [i([3, 1], 1, 2, 3), i([3], 1, 2, 3)],
    outputs: ["bool"],
  })),
  { op: "Where", inputs: [b([2, 1], 1, 0), f([3], 1, 2, 3), f([], -9)] },
  { op: "Cast", inputs: [f([4], 1.7, -1.7, 0, 3)], attributes: { to: 7 }, outputs: ["int64"] },
  { op: "Cast", inputs: [f([3], 0.5, 0, -2)], attributes: { to: 9 }, outputs: ["bool"] },
  { op: "Shape", inputs: [cube], outputs: ["int64"] },
  { op: "Shape", inputs: [cube], attributes: { start: -2, end: 3 }, outputs: ["int64"] },
  { op: "Size", inputs: [cube], outputs: ["int64"] },
  { op: "Reshape", inputs: [cube, i([3], 0, -1, 2)] },
  { op: "Unsqueeze", inputs: [matrix, i([2], 0, -1)] },
  { op: "Squeeze", inputs: [f([1, 3, 1], 1, 2, 3), i([1], 0)] },
  { op: "Squeeze", inputs: [f([1, 3, 1], 1, 2, 3)] },
  { op: "Flatten", inputs: [cube], attributes: { axis: 2 } },
  { op: "Transpose", inputs: [cube], attributes: { perm: [2, 0, 1] } },
  { op: "Transpose", inputs: [cube] },
  { op: "Expand", inputs: [f([3, 1], 1, 2, 3), i([3], 2, 1, 4)] },
  { op: "Tile", inputs: [matrix, i([2], 2, 3)] },
  { op: "Concat", inputs: [matrix, f([2, 1], 8, 9)], attributes: { axis: -1 } },
  {
    op: "Split",
    inputs: [cube, i([2], 1, 3)],
    attributes: { axis: 2 },
    outputs: ["float32", "float32"],
  },
  { op: "Split", inputs: [cube], attributes: { axis: 2 }, outputs: ["float32", "float32"] },
  {
    op: "Split",
    inputs: [cube],
    attributes: { axis: 1, num_outputs: 2 },
    outputs: ["float32", "float32"],
    opset: 18,
  },
  { op: "Slice", inputs: [cube, i([2], 1, -3), i([2], 3, 2 ** 40), i([2], 1, 2), i([2], 1, 2)] },
  { op: "Slice", inputs: [cube, i([1], -1), i([1], -100), i([1], 2), i([1], -2)] },
  { op: "Gather", inputs: [cube, i([2, 2], 1, -1, 0, 2)], attributes: { axis: 1 } },
  { op: "Gather", inputs: [cube, i([], 1)], attributes: { axis: 2 } },
  { op: "GatherElements", inputs: [matrix, i([2, 2], 2, 0, -1, 1)], attributes: { axis: 1 } },
  { op: "GatherND", inputs: [cube, i([2, 2], 0, 1, 1, -1)] },
  { op: "ScatterND", inputs: [matrix, i([2, 1], 1, 0), f([2, 3], 1, 2, 3, 4, 5, 6)] },
  { op: "Range", inputs: [i([], 2), i([], 11), i([], 3)], outputs: ["int64"] },
  { op: "Range", inputs: [f([], 1), f([], -1), f([], -0.5)] },
  { op: "ConstantOfShape", inputs: [i([2], 2, 3)] },
  { op: "Trilu", inputs: [cube], attributes: { upper: 1 } },
  { op: "Trilu", inputs: [cube, i([], -1)], attributes: { upper: 0 } },
  { op: "CumSum", inputs: [cube, i([], 1)] },
  { op: "NonZero", inputs: [b([2, 3], 0, 1, 1, 0, 0, 1)], outputs: ["int64"] },
  { op: "ReduceSum", inputs: [cube, i([2], 0, -1)], attributes: { keepdims: 0 } },
  { op: "ReduceSum", inputs: [cube] },
  ...["ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"].map((op) => ({
    op,
    inputs: [f([2, 3], 1, 2, 3, 4, 5, 6)],
    attributes: { axes: [1], keepdims: 1 },
  })),
  { op: "MatMul", inputs: [cube, f([4, 5], 1)] },
  { op: "MatMul", inputs: [f([5, 1, 2, 3], 1), f([2, 3, 4], 1)] },
  { op: "MatMul", inputs: [f([3], 1), f([3, 4], 1)], shapeOnly: true },
  {
    op: "Gemm",
    inputs: [f([3, 2], 1), f([4, 3], 1)],
    attributes: { transA: 1, transB: 1 },
    shapeOnly: true,
  },
  { op: "LayerNormalization", inputs: [cube, f([4], 1), f([4], 0)], shapeOnly: true },
  { op: "Softmax", inputs: [cube], shapeOnly: true },
  { op: "Erf", inputs: [cube], shapeOnly: true },
  { op: "TopK", inputs: [cube, i([1], 2)], outputs: ["float32", "int64"], shapeOnly: true },
  {
    op: "DynamicQuantizeLinear",
    inputs: [matrix],
    outputs: ["uint8", "float32", "uint8"],
    shapeOnly: true,
  },
  {
    op: "SkipSimplifiedLayerNormalization",
    domain: "com.microsoft",
    inputs: [cube, cube, f([4], 1)],
    shapeOnly: true,
  },
];

function getElements([, shape, elements]: Input): number[] {
  const count = shape.reduce((product, size) => product * size, 1);
  return Array.from({ length: count }, (_, n) => elements[n % elements.length]!);
}

function makeTensor(input: Input): Tensor {
  const [dtype, shape] = input;
  const elements = getElements(input);
  if (dtype === "int64") return new Tensor("int64", BigInt64Array.from(elements, BigInt), shape);
  if (dtype === "bool") return new Tensor("bool", Uint8Array.from(elements), shape);
  return new Tensor("float32", Float32Array.from(elements), shape);
}

function makeValue(input: Input): Value {
  const [dtype, shape] = input;
  return { dtype, shape, data: Float64Array.from(getElements(input)) };
}

for (const { op, inputs, attributes = {}, opset = 17, ...rest } of CASES) {
  const outputs: readonly TensorType[] = rest.outputs ?? ["float32"];
  const shapes = inputs.map((input) => `[${input?.[1] ?? ""}]`).join(" ");
  const options = Object.keys(attributes).length > 0 ? ` ${JSON.stringify(attributes)}` : "";
  Deno.test(`Evaluation of ${op} ${shapes}${options} agrees with ONNX Runtime`, async () => {
    const names = inputs.map((input, n) => input ? `in${n}` : "");
    const results = outputs.map((_, n) => `out${n}`);
    const bytes = buildModel({
      nodes: [makeNode(op, names, results, { attributes, domain: rest.domain ?? "" })],
      inputs: inputs.flatMap((input, n): Declared[] =>
        input ? [[`in${n}`, input[0], input[1]]] : []
      ),
      outputs: outputs.map((dtype, n): Declared => [results[n]!, dtype]),
      opset,
    });
    const model = await readModel(inMemory(bytes), "model.onnx");
    const feeds = new Map(
      inputs.flatMap((input, n): [string, Value][] => input ? [[`in${n}`, makeValue(input)]] : []),
    );
    const evaluation = new Evaluation(new GraphIndex(model.graph), feeds);

    const session = await openCpuSession(bytes);
    const tensors: Tensors = Object.fromEntries(
      inputs.flatMap((input, n) => input ? [[`in${n}`, makeTensor(input)]] : []),
    );
    const truth = await session.run(tensors);
    await session.release();
    for (const name of results) {
      const value = evaluation.value(name);
      assert.ok(value !== undefined, `${name} is unknown`);
      assert.equal(value.dtype, truth[name]!.type);
      assert.deepEqual(value.shape, truth[name]!.dims);
      if (rest.shapeOnly) continue;
      assert.ok(value.data !== undefined, `the elements of ${name} are unknown`);
      const expected = Array.from(truth[name]!.data as Iterable<number | bigint>, Number);
      value.data.forEach((x, n) => {
        const isSame = Object.is(x, expected[n]) || Math.abs(x - expected[n]!) < 1e-5;
        assert.ok(isSame, `element ${n} is ${x}, not ${expected[n]}`);
      });
    }
  });
}
