/**
 * Decodes and encodes the messages of an ONNX file. Byte fields of decoded messages are views of the encoded bytes.
 * Constants that are stored in files are written as references to the files (external data).
 *
 * @module
 */
import {
  countElementBytes,
  countElements,
  type TensorBytes,
  type TensorType,
  toDtype,
  toDtypeCode,
} from "./tensor.ts";
import {
  ATTRIBUTE,
  type Graph,
  type ModelProto,
  type Node,
  type OperatorSet,
  type Tensor,
  type ValueInfo,
} from "./proto.ts";
import {
  decodeInt64s,
  decodeText,
  type Field,
  MessageWriter,
  readFields,
  readInt64Varint,
  readSmallVarint,
} from "./wire.ts";

/** Field numbers of TensorProto for the fields that may be too large to be read with the graph. */
export const TENSOR = { floatData: 4, rawData: 9, doubleData: 10 } as const;

/** Converts elements from varints to the bytes that `raw_data` would hold. */
function packInts(bytesPerElement: number, values: Iterable<bigint>): Uint8Array {
  const bytes: number[] = [];
  for (const value of values) {
    for (let i = 0, rest = BigInt.asUintN(64, value); i < bytesPerElement; i++, rest >>= 8n) {
      bytes.push(Number(rest & 0xffn));
    }
  }
  return Uint8Array.from(bytes);
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}

function externalData(fields: readonly Field[]): TensorBytes | undefined {
  const entries = new Map(fields.map((field) => {
    const entry = new Map(
      [...readFields(field.payload)].map((part) => [part.number, decodeText(part)]),
    );
    return [entry.get(1), entry.get(2)];
  }));
  const file = entries.get("location");
  if (file === undefined) return undefined;
  const offset = Number(entries.get("offset") ?? 0);
  return { kind: "file", file, offset, length: Number(entries.get("length") ?? NaN) };
}

/** Builds a tensor from its fields. @param range where the raw data are, if they were not read. */
export function decodeTensor(fields: Iterable<Field>, range?: TensorBytes): Tensor {
  let [name, code] = ["", 0];
  const shape: number[] = [];
  const floats: Uint8Array[] = [];
  const ints: bigint[] = [];
  const external: Field[] = [];
  const rest: Field[] = [];
  let raw: Uint8Array | undefined;
  for (const field of fields) {
    switch (field.number) {
      case 1:
        shape.push(...[...decodeInt64s(field)].map(Number));
        break;
      case 2:
        code = readSmallVarint(field.payload);
        break;
      // float_data and double_data hold the bytes that raw_data would.
      case TENSOR.floatData:
      case TENSOR.doubleData:
        floats.push(field.payload);
        break;
      case 5:
      case 7:
      case 11:
        ints.push(...decodeInt64s(field));
        break;
      case 8:
        name = decodeText(field);
        break;
      case TENSOR.rawData:
        raw = field.payload;
        break;
      case 13:
        external.push(field);
        break;
      case 14:
        // The data location is known from the other fields.
        break;
      default:
        rest.push(field);
    }
  }
  const dtype = toDtype(code);
  const bytes = countElementBytes(dtype, countElements(shape));
  const outside = externalData(external);
  let data: TensorBytes;
  if (outside?.kind === "file") {
    data = Number.isNaN(outside.length) ? { ...outside, length: bytes } : outside;
  } else if (range !== undefined) {
    data = range;
  } else {
    const typed = () =>
      ints.length > 0 ? packInts(countElementBytes(dtype, 1), ints) : concat(floats);
    data = { kind: "memory", bytes: raw ?? typed() };
  }
  return { name, dtype, shape, data, rest };
}

/** Decodes a TensorProto without copying its bytes. */
export function decodeTensorMessage(message: Uint8Array): Tensor {
  return decodeTensor(readFields(message));
}

/** Decodes a NodeProto. */
export function decodeNode(message: Uint8Array): Node {
  const node = { opType: "", domain: "", name: "" };
  const inputs: string[] = [];
  const outputs: string[] = [];
  const attributes: { name: string; message: Uint8Array }[] = [];
  const rest: Field[] = [];
  for (const field of readFields(message)) {
    switch (field.number) {
      case 1:
        inputs.push(decodeText(field));
        break;
      case 2:
        outputs.push(decodeText(field));
        break;
      case 3:
        node.name = decodeText(field);
        break;
      case 4:
        node.opType = decodeText(field);
        break;
      case 5: {
        const named = readFields(field.payload).find(({ number }) => number === ATTRIBUTE.name);
        attributes.push({ name: named ? decodeText(named) : "", message: field.payload });
        break;
      }
      case 7: {
        const domain = decodeText(field);
        node.domain = domain === "ai.onnx" ? "" : domain;
        break;
      }
      default:
        rest.push(field);
    }
  }
  return { ...node, inputs, outputs, attributes, rest };
}

function decodeDim(message: Uint8Array): number | string | undefined {
  for (const field of readFields(message)) {
    if (field.number === 1) return readSmallVarint(field.payload);
    if (field.number === 2) return decodeText(field);
  }
  return undefined;
}

/** Decodes a ValueInfoProto. */
export function decodeValueInfo(message: Uint8Array): ValueInfo {
  const rest: Field[] = [];
  let name = "";
  let type: Uint8Array | undefined;
  for (const field of readFields(message)) {
    if (field.number === 1) name = decodeText(field);
    else if (field.number === 2) type = field.payload;
    else rest.push(field);
  }
  let dtype: ValueInfo["dtype"];
  let shape: ValueInfo["shape"];
  for (const { number, payload } of readFields(type ?? new Uint8Array(0))) {
    // Field 1 is `tensor_type`; sequences, maps and optionals have other numbers.
    if (number !== 1) continue;
    for (const field of readFields(payload)) {
      if (field.number === 1) dtype = toDtype(readSmallVarint(field.payload));
      if (field.number === 2) {
        shape = [...readFields(field.payload)].map((dim) => decodeDim(dim.payload));
      }
    }
  }
  return { name, dtype, shape, type, rest };
}

/** Decodes an OperatorSetIdProto. */
export function decodeOperatorSet(message: Uint8Array): OperatorSet {
  let [domain, version] = ["", 0];
  for (const field of readFields(message)) {
    if (field.number === 1) domain = decodeText(field);
    if (field.number === 2) version = Number(readInt64Varint(field.payload));
  }
  return { domain: domain === "ai.onnx" ? "" : domain, version };
}

function writeRest(message: MessageWriter, rest: readonly Field[]): MessageWriter {
  for (const field of rest) message.field(field);
  return message;
}

/** Encodes a node. */
export function encodeNode(node: Node): MessageWriter {
  const message = new MessageWriter();
  for (const input of node.inputs) message.text(1, input);
  for (const output of node.outputs) message.text(2, output);
  message.text(3, node.name).text(4, node.opType);
  for (const attribute of node.attributes) message.bytes(5, attribute.message);
  if (node.domain !== "") message.text(7, node.domain);
  return writeRest(message, node.rest);
}

/** Encodes a constant. */
export function encodeTensor({ name, dtype, shape, data, rest }: Tensor): MessageWriter {
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
    throw new Error(
      `"${name}" is computed when it is read, so it cannot be written to a graph's file.`,
    );
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

/** Declares an input or output. Sizes that are only known when the graph runs are given as symbols. */
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

/** Encodes a model. The bytes of constants in memory are copied once, into the result. */
export function writeModel(model: ModelProto): Uint8Array {
  const message = new MessageWriter().int(1, model.irVersion).message(7, encodeGraph(model.graph));
  for (const { domain, version } of model.operatorSets) {
    message.message(8, new MessageWriter().text(1, domain).int(2, version));
  }
  return writeRest(message, model.rest).finish();
}
