/**
 * Writes an ONNX file. Constants that lie in files are written as references to them (external data).
 *
 * @module
 */
import { type TensorType, toDtypeCode } from "./dtype.ts";
import type { Graph, ModelProto, Node, Tensor, ValueInfo } from "./proto.ts";
import { type Field, MessageWriter } from "./wire.ts";

function writeRest(message: MessageWriter, rest: readonly Field[]): MessageWriter {
  for (const field of rest) message.field(field);
  return message;
}

function encodeNode(node: Node): MessageWriter {
  const message = new MessageWriter();
  for (const input of node.inputs) message.text(1, input);
  for (const output of node.outputs) message.text(2, output);
  message.text(3, node.name).text(4, node.opType);
  for (const attribute of node.attributes) message.bytes(5, attribute.message);
  if (node.domain !== "") message.text(7, node.domain);
  return writeRest(message, node.rest);
}

function encodeTensor({ name, dtype, shape, data, rest }: Tensor): MessageWriter {
  const message = new MessageWriter();
  for (const size of shape) message.int(1, size);
  message.int(2, toDtypeCode(dtype)).text(8, name);
  if (data.kind === "file") {
    const entries = { location: data.file, offset: data.offset, length: data.length };
    for (const [key, value] of Object.entries(entries)) {
      message.message(13, new MessageWriter().text(1, key).text(2, String(value)));
    }
    message.int(14, 1);
  } else if (data.kind !== "memory") {
    throw new Error(`"${name}" is worked out when it is read; it cannot stand in the file itself.`);
  } else if (dtype !== "string") {
    // Strings have a field of their own, kept in `rest`.
    message.bytes(9, data.bytes);
  }
  return writeRest(message, rest);
}

function encodeTensorType(dtype: TensorType, shape: readonly (number | string)[]): MessageWriter {
  const dims = new MessageWriter();
  for (const size of shape) {
    const dim = new MessageWriter();
    if (typeof size === "number") dim.int(1, size);
    else dim.text(2, size);
    dims.message(1, dim);
  }
  const tensor = new MessageWriter().int(1, toDtypeCode(dtype)).message(2, dims);
  return new MessageWriter().message(1, tensor);
}

/** Declares a tensor; sizes that are known only when it runs are symbols. */
export function makeValueInfo(
  name: string,
  dtype: TensorType,
  shape: readonly (number | string)[],
): ValueInfo {
  return { name, dtype, shape, type: encodeTensorType(dtype, shape).finish(), rest: [] };
}

function encodeValueInfo({ name, type, rest }: ValueInfo): MessageWriter {
  const message = new MessageWriter().text(1, name);
  if (type !== undefined) message.bytes(2, type);
  return writeRest(message, rest);
}

function encodeGraph(graph: Graph): MessageWriter {
  const message = new MessageWriter();
  for (const node of graph.nodes) message.message(1, encodeNode(node));
  message.text(2, graph.name);
  for (const tensor of graph.initializers) message.message(5, encodeTensor(tensor));
  for (const input of graph.inputs) message.message(11, encodeValueInfo(input));
  for (const output of graph.outputs) message.message(12, encodeValueInfo(output));
  for (const value of graph.valueInfos) message.message(13, encodeValueInfo(value));
  return writeRest(message, graph.rest);
}

/** Encodes a model; the bytes of constants in memory are copied once, into the result. */
export function writeModel(model: ModelProto): Uint8Array {
  const message = new MessageWriter().int(1, model.irVersion).message(7, encodeGraph(model.graph));
  for (const { domain, version } of model.operatorSets) {
    message.message(8, new MessageWriter().text(1, domain).int(2, version));
  }
  return writeRest(message, model.rest).finish();
}
