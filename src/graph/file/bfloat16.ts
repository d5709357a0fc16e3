/**
 * Reads graphs in bfloat16 as graphs in float32, which represents all of its numbers: neither ONNX Runtime on the CPU
 * nor WebGPU computes in bfloat16.
 *
 * @module
 */
import {
  ATTRIBUTE,
  type Attribute,
  attribute,
  ATTRIBUTE_TYPE,
  intAttribute,
  type ModelProto,
  type Node,
  type Tensor,
  tensorAttribute,
  type ValueInfo,
  withGraph,
} from "./proto.ts";
import { decodeTensorMessage, encodeTensor, makeValueInfo } from "./proto_codec.ts";
import { widenTensor } from "./stored_range.ts";
import { toDtypeCode } from "./tensor.ts";
import { MessageWriter } from "./wire.ts";

const [BFLOAT16, FLOAT32] = [toDtypeCode("bfloat16"), toDtypeCode("float32")];
/** Attributes that name the type of a node's output. */
const TYPE_ATTRIBUTES = new Set(["to", "dtype", "output_dtype"]);

/** The model with float32 in place of bfloat16; graphs within nodes are left as they are. */
export function widenBfloat16(model: ModelProto): ModelProto {
  const { nodes, initializers, inputs, outputs } = model.graph;
  const isBfloat16 = ({ dtype }: Tensor | ValueInfo) => dtype === "bfloat16";
  if (![...initializers, ...inputs, ...outputs].some(isBfloat16)) return model;
  return withGraph(model, {
    nodes: nodes.map(widenNode),
    initializers: initializers.map((tensor) => isBfloat16(tensor) ? widenTensor(tensor) : tensor),
    inputs: inputs.map(widenInfo),
    outputs: outputs.map(widenInfo),
    valueInfos: [],
  });
}

function widenInfo(info: ValueInfo): ValueInfo {
  if (info.dtype !== "bfloat16") return info;
  const shape = (info.shape ?? []).map((size, axis) => size ?? `${info.name}_${axis}`);
  return makeValueInfo(info.name, "float32", shape);
}

function widenNode(node: Node): Node {
  const widened = node.attributes.map((each) => widenAttribute(node, each));
  return { ...node, attributes: widened };
}

function widenAttribute(node: Node, each: Attribute): Attribute {
  const { name } = each;
  if (TYPE_ATTRIBUTES.has(name)) {
    return intAttribute(node, name) === BFLOAT16 ? attribute(name, FLOAT32) : each;
  }
  const message = name === "value" ? tensorAttribute(node, name) : undefined;
  const tensor = message && decodeTensorMessage(message);
  if (tensor?.dtype !== "bfloat16") return each;
  const encoded = new MessageWriter().text(ATTRIBUTE.name, name)
    .message(ATTRIBUTE.tensor, encodeTensor(widenTensor(tensor)))
    .int(ATTRIBUTE.type, ATTRIBUTE_TYPE.tensor);
  return { name, message: encoded.finish() };
}
