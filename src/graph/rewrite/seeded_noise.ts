/**
 * Repeatable noise: fixed tables of random numbers, and offsets to read them from.
 *
 * @module
 */
import {
  int64Tensor,
  makeNode,
  type ModelProto,
  type Node,
  readFloatAttribute,
  readIntAttribute,
  readIntsAttribute,
  type Tensor,
  withGraph,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_codec.ts";

/** Elements of a table. They suffice for noise that does not repeat within a second of audio. */
const NOISE_TABLE_SIZE = 2 ** 19;

let normal: Float32Array<ArrayBuffer> | undefined;
let uniform: Float32Array<ArrayBuffer> | undefined;

/** Numbers of mean 0 and variance 1 (Box and Muller 1958). Callers must not change them. */
export function getNormalTable(): Float32Array<ArrayBuffer> {
  return normal ??= makeNormal();
}

/** Numbers between 0 and 1. Callers must not change them. */
function getUniformTable(): Float32Array<ArrayBuffer> {
  return uniform ??= makeUniform();
}

/** The offset of the noise for a segment of text and a seed. */
export function noiseOffset(seed: number, chunk: number): number {
  const mixed = Math.imul(seed ^ Math.imul(chunk + 1, 0x9e3779b1), 0x85ebca6b);
  return ((mixed ^ (mixed >>> 13)) >>> 0) % NOISE_TABLE_SIZE;
}

/** Copies normal noise from an offset on. */
export function copyNormalNoise(offset: number, length: number): Float32Array<ArrayBuffer> {
  const table = getNormalTable();
  const noise = new Float32Array(length);
  for (let at = 0; at < length;) {
    const from = (offset + at) % NOISE_TABLE_SIZE;
    const chunk = table.subarray(from, from + length - at);
    noise.set(chunk, at);
    at += chunk.length;
  }
  return noise;
}

/** A fixed stream of numbers between 0 and 1, both excluded (mulberry32). */
function makeUniformStream(): () => number {
  let state = 0x9e3779b9;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return (((bits ^ (bits >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
}

function makeUniform(): Float32Array<ArrayBuffer> {
  const next = makeUniformStream();
  const table = new Float32Array(NOISE_TABLE_SIZE);
  for (let i = 0; i < NOISE_TABLE_SIZE; i++) table[i] = next();
  return table;
}

function makeNormal(): Float32Array<ArrayBuffer> {
  const next = makeUniformStream();
  const table = new Float32Array(NOISE_TABLE_SIZE);
  for (let i = 0; i < NOISE_TABLE_SIZE; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(next()));
    const angle = 2 * Math.PI * next();
    table[i] = radius * Math.cos(angle);
    table[i + 1] = radius * Math.sin(angle);
  }
  return table;
}

/** The input for the offset in the tables, int64 `[]`, 0 or more. */
const NOISE_OFFSET = "noise_offset";

/** Distance between the offsets of one graph's operators. Odd, so that they spread over the tables. */
const STRIDE = 104_729;

/**
 * Number of elements that are looked up by one index. An index for each element would take longer than the random
 * operator.
 */
const ROW = 64;

/**
 * The inputs for the tables, float32. Constants would have to be computed before the model is ready, and would be
 * copied several times while its session opens.
 */
const TABLES = {
  normal: { name: "normal_noise", make: getNormalTable },
  uniform: { name: "uniform_noise", make: getUniformTable },
} as const;
const TABLE_SHAPE = [NOISE_TABLE_SIZE / ROW, ROW] as const;

const FLOAT32 = 1;

/** Whether {@linkcode seedNoise} adds an input of this name. */
export function isNoiseInput(name: string): boolean {
  return name === NOISE_OFFSET || Object.values(TABLES).some((table) => table.name === name);
}

/**
 * The value of an input that {@linkcode seedNoise} added; `undefined` for other inputs.
 *
 * @param offset where the noise begins, 0 or more.
 */
export function readNoiseInput(
  name: string,
  offset: number,
): { readonly values: ArrayLike<number>; readonly dims: readonly number[] } | undefined {
  if (name === NOISE_OFFSET) return { values: [offset], dims: [] };
  const table = Object.values(TABLES).find((each) => each.name === name);
  return table && { values: table.make(), dims: TABLE_SHAPE };
}

/**
 * Replaces random operators by lookups in tables, which become inputs. A graph without random operators is unchanged.
 */
export function seedNoise(model: ModelProto): ModelProto {
  const { graph } = model;
  const used = new Set<keyof typeof TABLES>();
  let numRandom = 0;
  const nodes = graph.nodes.flatMap((node) => {
    const kind = findKind(node);
    if (kind === undefined) return [node];
    used.add(kind);
    return lookUp(node, { kind, number: numRandom++ });
  });
  if (numRandom === 0) return model;
  return withGraph(model, {
    nodes,
    initializers: [...graph.initializers, ...numbers(numRandom)],
    inputs: [
      ...graph.inputs,
      makeValueInfo(NOISE_OFFSET, "int64", []),
      ...Array.from(used, (kind) => makeValueInfo(TABLES[kind].name, "float32", TABLE_SHAPE)),
    ],
  });
}

function findKind({ domain, opType }: Node): keyof typeof TABLES | undefined {
  if (domain !== "") return undefined;
  if (opType === "RandomNormal" || opType === "RandomNormalLike") return "normal";
  return opType === "RandomUniform" || opType === "RandomUniformLike" ? "uniform" : undefined;
}

/**
 * Makes the nodes that replace a random operator. They take as many elements of a table as the operator's output has.
 */
function lookUp(
  node: Node,
  { kind, number }: { readonly kind: keyof typeof TABLES; readonly number: number },
): Node[] {
  const [output = ""] = node.outputs;
  const value = (name: string) => `${output}/${name}`;
  const isLike = node.opType.endsWith("Like");
  const shape = isLike
    ? makeNode("Shape", [node.inputs[0]!], [value("shape")])
    : makeNode("Constant", [], [value("shape")], {
      attributes: { value_ints: readIntsAttribute(node, "shape") ?? [] },
    });
  const dtype = readIntAttribute(node, "dtype");
  return [
    shape,
    makeNode("ReduceProd", [value("shape")], [value("count")], { attributes: { keepdims: 1 } }),
    makeNode("Add", [NOISE_OFFSET, strideName(number)], [value("begin")]),
    makeNode("Add", [value("begin"), value("count")], [value("end")]),
    makeNode("Div", [value("begin"), "noise_row"], [value("first")]),
    makeNode("Div", [value("end"), "noise_row"], [value("last")]),
    makeNode("Add", [value("last"), "noise_1"], [value("stop")]),
    makeNode("Range", [value("first"), value("stop"), "noise_1"], [value("rows")]),
    makeNode("Mod", [value("rows"), "noise_rows"], [value("within")]),
    makeNode("Gather", [TABLES[kind].name, value("within")], [value("found")]),
    makeNode("Reshape", [value("found"), "noise_flat"], [value("line")]),
    makeNode("Mod", [value("begin"), "noise_row"], [value("from")]),
    makeNode("Add", [value("from"), value("count")], [value("to")]),
    makeNode("Slice", [value("line"), value("from"), value("to")], [value("flat")]),
    makeNode("Reshape", [value("flat"), value("shape")], [value("standard")]),
    ...scaled(node, { kind, from: value("standard"), to: value("scaled") }),
    dtype === undefined && isLike
      ? makeNode("CastLike", [value("scaled"), node.inputs[0]!], [output])
      : makeNode("Cast", [value("scaled")], [output], { attributes: { to: dtype ?? FLOAT32 } }),
  ];
}

/** Computes `from · spread + shift`, with numbers from the operator's attributes. */
function scaled(
  node: Node,
  { kind, from, to }: {
    readonly kind: keyof typeof TABLES;
    readonly from: string;
    readonly to: string;
  },
): Node[] {
  const low = readFloatAttribute(node, "low") ?? 0;
  const spread = kind === "normal"
    ? readFloatAttribute(node, "scale") ?? 1
    : (readFloatAttribute(node, "high") ?? 1) - low;
  const shift = kind === "normal" ? readFloatAttribute(node, "mean") ?? 0 : low;
  const number = (value: number, name: string) =>
    makeNode("Constant", [], [`${to}/${name}`], { attributes: { value_float: { float: value } } });
  return [
    number(spread, "spread"),
    number(shift, "shift"),
    makeNode("Mul", [from, `${to}/spread`], [`${to}/product`]),
    makeNode("Add", [`${to}/product`, `${to}/shift`], [to]),
  ];
}

const strideName = (number: number) => `noise_stride_${number}`;

function numbers(numRandom: number): Tensor[] {
  const number = (name: string, value: number) => int64Tensor(name, [1], [value]);
  return [
    number("noise_1", 1),
    number("noise_row", ROW),
    number("noise_rows", NOISE_TABLE_SIZE / ROW),
    number("noise_flat", -1),
    ...Array.from({ length: numRandom }, (_, i) => number(strideName(i), i * STRIDE)),
  ];
}
