/**
 * Replaces bfloat16 by float32 in a model. Neither ONNX Runtime on the CPU nor WebGPU computes in bfloat16, and float32
 * represents all numbers of bfloat16.
 *
 * @module
 */
import {
  ATTRIBUTE,
  type Attribute,
  attribute,
  ATTRIBUTE_TYPE,
  type ModelProto,
  type Node,
  readIntAttribute,
  readTensorAttribute,
  type Tensor,
  type ValueInfo,
  withGraph,
} from "./proto.ts";
import {
  decodeNode,
  decodeTensorMessage,
  decodeValueInfo,
  encodeNode,
  encodeTensor,
  makeValueInfo,
} from "./proto_codec.ts";
import { widenTensor } from "./stored_range.ts";
import { toDtypeCode } from "./tensor.ts";
import { hasField, MessageWriter, readFields } from "./wire.ts";

const [BFLOAT16, FLOAT32] = [toDtypeCode("bfloat16"), toDtypeCode("float32")];
/** Attributes that give the type of a node's output. */
const TYPE_ATTRIBUTES = new Set(["to", "dtype", "output_dtype"]);
/** Attributes with nested graphs, such as the branches of an `If`. */
const GRAPH_ATTRIBUTES = [ATTRIBUTE.graph, ATTRIBUTE.graphs];
/** Field numbers of GraphProto. */
const GRAPH = { node: 1, initializer: 5, input: 11, output: 12, valueInfo: 13 } as const;

/** Replaces bfloat16 by float32, also in nested graphs. A model without bfloat16 is returned unchanged. */
export function widenBfloat16(model: ModelProto): ModelProto {
  const { initializers, inputs, outputs } = model.graph;
  const nodes = model.graph.nodes.map(widenNode);
  const isSame = nodes.every((node, i) => node === model.graph.nodes[i]);
  if (isSame && ![...initializers, ...inputs, ...outputs].some(isBfloat16)) return model;
  return withGraph(model, {
    nodes,
    initializers: initializers.map((tensor) => isBfloat16(tensor) ? widenTensor(tensor) : tensor),
    inputs: inputs.map(widenInfo),
    outputs: outputs.map(widenInfo),
    valueInfos: [],
  });
}

function isBfloat16({ dtype }: Tensor | ValueInfo): boolean {
  return dtype === "bfloat16";
}

function widenInfo(info: ValueInfo): ValueInfo {
  if (!isBfloat16(info)) return info;
  const shape = (info.shape ?? []).map((size, axis) => size ?? `${info.name}_${axis}`);
  return makeValueInfo(info.name, "float32", shape);
}

function widenNode(node: Node): Node {
  const attributes = node.attributes.map((each) => widenAttribute(node, each));
  const isSame = attributes.every((each, i) => each === node.attributes[i]);
  return isSame ? node : { ...node, attributes };
}

function widenAttribute(node: Node, each: Attribute): Attribute {
  const { name, message } = each;
  if (TYPE_ATTRIBUTES.has(name)) {
    return readIntAttribute(node, name) === BFLOAT16 ? attribute(name, FLOAT32) : each;
  }
  if (hasField(message, GRAPH_ATTRIBUTES)) return widenGraphs(each);
  const value = name === "value" ? readTensorAttribute(node, name) : undefined;
  const tensor = value && decodeTensorMessage(value);
  if (tensor === undefined || !isBfloat16(tensor)) return each;
  const encoded = new MessageWriter().text(ATTRIBUTE.name, name)
    .message(ATTRIBUTE.tensor, encodeTensor(widenTensor(tensor)))
    .int(ATTRIBUTE.type, ATTRIBUTE_TYPE.tensor);
  return { name, message: encoded.finish() };
}

function widenGraphs(each: Attribute): Attribute {
  const message = new MessageWriter();
  let isSame = true;
  for (const field of readFields(each.message)) {
    const widened = GRAPH_ATTRIBUTES.some((number) => number === field.number)
      ? widenNested(field.payload)
      : undefined;
    if (widened === undefined) message.field(field);
    else {
      message.message(field.number, widened);
      isSame = false;
    }
  }
  return isSame ? each : { name: each.name, message: message.finish() };
}

/** Widens an encoded graph; `undefined` if nothing in it is bfloat16. Types of inner tensors are left out. */
function widenNested(graph: Uint8Array): MessageWriter | undefined {
  const message = new MessageWriter();
  let isSame = true;
  for (const field of readFields(graph)) {
    const widened = widenField(field.number, field.payload);
    if (widened !== undefined) {
      message.message(field.number, widened);
      isSame = false;
    } else if (field.number !== GRAPH.valueInfo) message.field(field);
  }
  return isSame ? undefined : message;
}

function widenField(number: number, payload: Uint8Array): MessageWriter | undefined {
  if (number === GRAPH.node) {
    const node = decodeNode(payload);
    const widened = widenNode(node);
    return widened === node ? undefined : encodeNode(widened);
  }
  if (number === GRAPH.initializer) {
    const tensor = decodeTensorMessage(payload);
    const isWidened = isBfloat16(tensor) && tensor.data.kind === "memory";
    return isWidened ? encodeTensor(widenTensor(tensor)) : undefined;
  }
  if (number !== GRAPH.input && number !== GRAPH.output) return undefined;
  const info = decodeValueInfo(payload);
  // Without a shape, because branches of an `If` need not declare shapes.
  const type = new MessageWriter().message(1, new MessageWriter().int(1, FLOAT32));
  return isBfloat16(info) ? new MessageWriter().text(1, info.name).message(2, type) : undefined;
}
