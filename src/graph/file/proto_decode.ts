/**
 * Decodes the messages of an ONNX file that are in memory. Byte fields stay views of what is passed in.
 *
 * @module
 */
import { countElementBytes, countElements, toDtype } from "./dtype.ts";
import type { TensorBytes } from "./stored_tensor.ts";
import { ATTRIBUTE, type Node, type OperatorSet, type Tensor, type ValueInfo } from "./proto.ts";
import {
  decodeInt64s,
  decodeText,
  type Field,
  int64Varint,
  readFields,
  smallVarint,
} from "./wire.ts";

/** Field numbers of TensorProto that a reader must know before it decodes the rest. */
export const TENSOR = { floatData: 4, rawData: 9, doubleData: 10 } as const;

/** The raw bytes of elements that the file holds as varints. */
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

/** Builds a tensor from its fields; `range` says where its raw data lie if they were not read. */
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
        code = smallVarint(field.payload);
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
        // data_location follows from where the data are.
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

/** Decodes a TensorProto that is in memory; its bytes stay where they are. */
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
    if (field.number === 1) return smallVarint(field.payload);
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
    // tensor_type; sequences, maps and optionals have other numbers.
    if (number !== 1) continue;
    for (const field of readFields(payload)) {
      if (field.number === 1) dtype = toDtype(smallVarint(field.payload));
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
    if (field.number === 2) version = Number(int64Varint(field.payload));
  }
  return { domain: domain === "ai.onnx" ? "" : domain, version };
}
