/**
 * Makes the noise of a graph repeatable: its random operators become look-ups in fixed tables, from an offset given
 * with each run. Equal offsets give equal sound, on every device and in any order of runs.
 *
 * @module
 */
import { NOISE_TABLE_SIZE, normalTable, uniformTable } from "./noise_table.ts";
import {
  floatAttribute,
  int64Tensor,
  intAttribute,
  intsAttribute,
  makeNode,
  type ModelProto,
  type Node,
  type Tensor,
  withGraph,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_write.ts";

/** The input for the offset in the tables, int64 `[]`, 0 or more. */
const NOISE_OFFSET = "noise_offset";

/** Distance between the offsets of one graph's operators. Odd, so that they spread over the tables. */
const STRIDE = 104_729;

/** Elements looked up together: an index for each would cost more than the random operator did. */
const ROW = 64;

/**
 * Inputs too, float32: as constants they would be made before the model is ready, and copied several times while its
 * session opens.
 */
const TABLES = {
  normal: { name: "normal_noise", make: normalTable },
  uniform: { name: "uniform_noise", make: uniformTable },
} as const;
const TABLE_SHAPE = [NOISE_TABLE_SIZE / ROW, ROW] as const;

const FLOAT32 = 1;

/** Whether {@linkcode seedNoise} adds an input of this name. */
export function isNoiseInput(name: string): boolean {
  return name === NOISE_OFFSET || Object.values(TABLES).some((table) => table.name === name);
}

/**
 * The value of an input that {@linkcode seedNoise} added; `undefined` for others.
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

/** Replaces random operators by lookups in tables, which become inputs; a graph without any is unchanged. */
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

/** Nodes that replace a random operator: as many elements of a table as its output has. */
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
      attributes: { value_ints: intsAttribute(node, "shape") ?? [] },
    });
  const dtype = intAttribute(node, "dtype");
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

/** `from · spread + shift`, as the operator's attributes say. */
function scaled(
  node: Node,
  { kind, from, to }: {
    readonly kind: keyof typeof TABLES;
    readonly from: string;
    readonly to: string;
  },
): Node[] {
  const low = floatAttribute(node, "low") ?? 0;
  const spread = kind === "normal"
    ? floatAttribute(node, "scale") ?? 1
    : (floatAttribute(node, "high") ?? 1) - low;
  const shift = kind === "normal" ? floatAttribute(node, "mean") ?? 0 : low;
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
