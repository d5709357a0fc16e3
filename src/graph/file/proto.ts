/**
 * An ONNX model in memory: decoded nodes, and large weights as references to ranges of files. Unknown fields of a file
 * are kept and written back (`rest`).
 *
 * @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 * @module
 */
import type { StoredTensor, TensorType } from "./tensor.ts";
import {
  decodeInt64s,
  type Field,
  hasField,
  MessageWriter,
  readFields,
  readInt64Varint,
} from "./wire.ts";

/** An attribute in encoded form; read it with {@linkcode readIntAttribute} or a similar function. */
export interface Attribute {
  readonly name: string;
  /** The encoded AttributeProto. */
  readonly message: Uint8Array;
}

/** One operation. An empty name in `inputs` or `outputs` stands for an absent one. */
export interface Node {
  readonly opType: string;
  /** Empty for ONNX's own operators. */
  readonly domain: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: readonly Attribute[];
  readonly rest: readonly Field[];
}

/** A constant of the graph. */
export interface Tensor extends StoredTensor {
  readonly rest: readonly Field[];
}

/** A declared input or output. */
export interface ValueInfo {
  readonly name: string;
  /** Element type; absent when the value is not a tensor. */
  readonly dtype?: TensorType | undefined;
  /** Sizes, symbols, or `undefined` for sizes that the file leaves open; absent if the file declares no rank. */
  readonly shape?: readonly (number | string | undefined)[] | undefined;
  /** The encoded TypeProto. */
  readonly type?: Uint8Array | undefined;
  readonly rest: readonly Field[];
}

/** The graph of a model. */
export interface Graph {
  readonly name: string;
  readonly nodes: readonly Node[];
  readonly initializers: readonly Tensor[];
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  readonly valueInfos: readonly ValueInfo[];
  readonly rest: readonly Field[];
}

/** A version of an operator set that the model uses. */
export interface OperatorSet {
  readonly domain: string;
  readonly version: number;
}

/** A whole file. */
export interface ModelProto {
  readonly irVersion: number;
  readonly operatorSets: readonly OperatorSet[];
  readonly graph: Graph;
  readonly rest: readonly Field[];
}

/** The version of ONNX's own operators; 0 if the model names none. */
export function getOpset({ operatorSets }: ModelProto): number {
  return operatorSets.find(({ domain }) => domain === "" || domain === "ai.onnx")?.version ?? 0;
}

/** Field numbers of AttributeProto that are read and written here. */
export const ATTRIBUTE = {
  name: 1,
  float: 2,
  int: 3,
  string: 4,
  tensor: 5,
  graph: 6,
  floats: 7,
  ints: 8,
  graphs: 11,
  type: 20,
} as const;

/** `AttributeProto.AttributeType`. */
export const ATTRIBUTE_TYPE = {
  float: 1,
  int: 2,
  string: 3,
  tensor: 4,
  floats: 6,
  ints: 7,
} as const;

function attributeField(node: Node, name: string, number: number): Field | undefined {
  const attribute = node.attributes.find((candidate) => candidate.name === name);
  if (attribute === undefined) return undefined;
  for (const field of readFields(attribute.message)) {
    if (field.number === number) return field;
  }
  return undefined;
}

/** The value of an integer attribute. */
export function readIntAttribute(node: Node, name: string): number | undefined {
  const field = attributeField(node, name, ATTRIBUTE.int);
  return field && Number(readInt64Varint(field.payload));
}

/** The value of a float attribute. */
export function readFloatAttribute(node: Node, name: string): number | undefined {
  const field = attributeField(node, name, ATTRIBUTE.float);
  if (field === undefined) return undefined;
  return new DataView(field.payload.buffer, field.payload.byteOffset).getFloat32(0, true);
}

/** The value of a string attribute. */
export function readStringAttribute(node: Node, name: string): string | undefined {
  const field = attributeField(node, name, ATTRIBUTE.string);
  return field && new TextDecoder().decode(field.payload);
}

/** The encoded TensorProto of a tensor attribute. */
export function readTensorAttribute(node: Node, name: string): Uint8Array | undefined {
  return attributeField(node, name, ATTRIBUTE.tensor)?.payload;
}

/** The values of an attribute of integers. */
export function readIntsAttribute(node: Node, name: string): number[] | undefined {
  const attribute = node.attributes.find((candidate) => candidate.name === name);
  if (attribute === undefined) return undefined;
  const values: number[] = [];
  for (const field of readFields(attribute.message)) {
    if (field.number === ATTRIBUTE.ints) values.push(...[...decodeInt64s(field)].map(Number));
  }
  return values;
}

/** The values of an attribute of floats, as the bytes of f32. */
export function readFloatsAttribute(node: Node, name: string): Uint8Array | undefined {
  const attribute = node.attributes.find((candidate) => candidate.name === name);
  if (attribute === undefined) return undefined;
  const parts = [...readFields(attribute.message)].filter(({ number }) =>
    number === ATTRIBUTE.floats
  );
  return Uint8Array.from(parts.flatMap(({ payload }) => [...payload]));
}

/** Whether the node runs graphs of its own (`If`, `Loop`, `Scan`). */
export function hasSubgraph(node: Node): boolean {
  return node.attributes.some(({ message }) =>
    hasField(message, [ATTRIBUTE.graph, ATTRIBUTE.graphs])
  );
}

/** A value that {@linkcode attribute} can encode: an integer, integers, a string, or a float as `{ float }`. */
export type AttributeValue = number | readonly number[] | string | { readonly float: number };

/** Encodes an attribute. */
export function attribute(name: string, value: AttributeValue): Attribute {
  const message = new MessageWriter().text(ATTRIBUTE.name, name);
  if (typeof value === "number") {
    message.int(ATTRIBUTE.int, value).int(ATTRIBUTE.type, ATTRIBUTE_TYPE.int);
  } else if (typeof value === "string") {
    message.text(ATTRIBUTE.string, value).int(ATTRIBUTE.type, ATTRIBUTE_TYPE.string);
  } else if ("float" in value) {
    message.float(ATTRIBUTE.float, value.float).int(ATTRIBUTE.type, ATTRIBUTE_TYPE.float);
  } else {
    for (const item of value) message.int(ATTRIBUTE.ints, item);
    message.int(ATTRIBUTE.type, ATTRIBUTE_TYPE.ints);
  }
  return { name, message: message.finish() };
}

/** Replaces parts of a model's graph. */
export function withGraph(model: ModelProto, changes: Partial<Graph>): ModelProto {
  return { ...model, graph: { ...model.graph, ...changes } };
}

/** Makes a model that uses opset 17 of ONNX's own operators, and operator sets of other domains. */
export function makeModel(
  graph: Pick<Graph, "name" | "nodes" | "inputs" | "outputs"> & Partial<Graph>,
  domains: readonly OperatorSet[] = [],
): ModelProto {
  return {
    irVersion: 8,
    operatorSets: [{ domain: "", version: 17 }, ...domains],
    graph: { initializers: [], valueInfos: [], rest: [], ...graph },
    rest: [],
  };
}

/** Lists the constants that nodes read. */
export function listRead(nodes: readonly Node[], constants: readonly Tensor[]): Tensor[] {
  const read = new Set(nodes.flatMap(({ inputs }) => inputs));
  return constants.filter(({ name }) => read.has(name));
}

/** Makes a node of ONNX's own operators, or of another `domain`. */
export function makeNode(
  opType: string,
  inputs: readonly string[],
  outputs: readonly string[],
  options: {
    attributes?: Readonly<Record<string, AttributeValue>>;
    domain?: string;
    name?: string;
  } = {},
): Node {
  const { attributes = {}, domain = "", name = outputs[0] ?? "" } = options;
  return {
    opType,
    domain,
    name,
    inputs,
    outputs,
    attributes: Object.entries(attributes).map(([key, value]) => attribute(key, value)),
    rest: [],
  };
}

/**
 * Makes an int64 constant. A value of 2⁶³ becomes the largest int64, 2⁶³ - 1: exporters use that number for "to the
 * end", and a double rounds it up.
 */
export function int64Tensor(
  name: string,
  shape: readonly number[],
  values: readonly number[],
): Tensor {
  const data = BigInt64Array.from(values, (x) => x >= 2 ** 63 ? 2n ** 63n - 1n : BigInt(x));
  return {
    name,
    dtype: "int64",
    shape,
    data: { kind: "memory", bytes: new Uint8Array(data.buffer) },
    rest: [],
  };
}
