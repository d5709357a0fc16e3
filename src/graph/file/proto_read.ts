/**
 * Reads an ONNX file range by range: nodes and small constants into memory, but only the positions of weights.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { countStoredBytes, isIndexDtype } from "./tensor.ts";
import type { ModelFiles } from "./external_data.ts";
import { readStoredBytes } from "./stored_range.ts";
import { sortNodes } from "../graph_index.ts";
import { widenBfloat16 } from "./widen_bfloat16.ts";
import { packZeroPoints } from "./zero_points.ts";
import type { Graph, ModelProto, Node, OperatorSet, Tensor, ValueInfo } from "./proto.ts";
import {
  decodeNode,
  decodeOperatorSet,
  decodeTensor,
  decodeTensorMessage,
  decodeValueInfo,
  TENSOR,
} from "./proto_codec.ts";
import {
  decodeText,
  type Field,
  getFixedLength,
  MAX_VARINT_BYTES,
  readSmallVarint,
  readVarintLength,
  WireType,
} from "./wire.ts";

/** Constants up to this size are read with the graph: scales, shapes, the weights of norms. */
const SMALL_BYTES = 4096;
/** Tables up to this size are read too, for the cut: masks, positions, biases. */
const TABLE_BYTES = 16 * 2 ** 20;
/** Maximum number of fields of a message. Even large graphs have far fewer nodes. */
const MAX_FIELDS = 500_000;
/** Bytes per read while scanning the file. */
const WINDOW_BYTES = 64 * 1024;

/** The position of a field's payload in the file. */
interface FieldRange {
  readonly number: number;
  readonly wireType: number;
  readonly offset: number;
  readonly length: number;
}

/** Scans one file with a small window, so that most of a large payload that is skipped is not read. */
class FieldWalker {
  readonly #files: ModelFiles;
  readonly #file: string;
  #window = new Uint8Array(0);
  #start = 0;

  constructor(files: ModelFiles, file: string) {
    this.#files = files;
    this.#file = file;
  }

  /** Returns a view of the file that begins at `offset`, of at least `length` bytes unless the message ends earlier. */
  async #view(offset: number, length: number, end: number): Promise<Uint8Array> {
    const wanted = Math.min(length, end - offset);
    const from = offset - this.#start;
    if (from < 0 || from + wanted > this.#window.length) {
      this.#window = new Uint8Array(Math.min(Math.max(WINDOW_BYTES, wanted), end - offset));
      this.#start = offset;
      await this.#files.read(this.#file, offset, this.#window);
    }
    return this.#window.subarray(offset - this.#start);
  }

  /** Walks through the fields of the message between two offsets. */
  async *ranges(start: number, end: number): AsyncGenerator<FieldRange> {
    let numFields = 0;
    for (let offset = start; offset < end;) {
      if (++numFields > MAX_FIELDS) {
        throw new StartupError(
          `${this.#file} is not a valid graph: one of its messages has more than ${MAX_FIELDS} fields.`,
        );
      }
      const head = await this.#view(offset, 2 * MAX_VARINT_BYTES, end);
      const tag = readSmallVarint(head);
      const tagLength = readVarintLength(head, 0)!;
      const wireType = tag % 8;
      let skip = tagLength;
      let length: number | undefined;
      if (wireType === WireType.varint) {
        length = readVarintLength(head, tagLength);
        if (length === undefined) readSmallVarint(head, tagLength);
      } else {
        length = getFixedLength(wireType);
        if (length === undefined) {
          length = readSmallVarint(head, tagLength);
          skip += readVarintLength(head, tagLength)!;
        }
      }
      const fieldRange = {
        number: Math.floor(tag / 8),
        wireType,
        offset: offset + skip,
        length: length!,
      };
      offset = fieldRange.offset + fieldRange.length;
      if (offset > end) {
        throw new StartupError(
          `${this.#file} is damaged or incomplete: at byte ${fieldRange.offset} it promises ` +
            `${fieldRange.length} bytes, but only ${end - fieldRange.offset} follow.`,
        );
      }
      yield fieldRange;
    }
  }

  /** Reads a field. The payload is copied, so that it does not keep a window in memory. */
  async field({ number, wireType, offset, length }: FieldRange): Promise<Field> {
    const view = await this.#view(offset, length, offset + length);
    return { number, wireType, payload: view.slice(0, length) };
  }
}

async function readTensor(
  walker: FieldWalker,
  file: string,
  fieldRange: FieldRange,
): Promise<Tensor> {
  if (fieldRange.length <= SMALL_BYTES) {
    return decodeTensorMessage((await walker.field(fieldRange)).payload);
  }
  const fields: Field[] = [];
  let range: { kind: "file"; file: string; offset: number; length: number } | undefined;
  for await (
    const part of walker.ranges(fieldRange.offset, fieldRange.offset + fieldRange.length)
  ) {
    const isRaw = part.number === TENSOR.rawData || part.number === TENSOR.floatData ||
      part.number === TENSOR.doubleData;
    if (isRaw && part.length > SMALL_BYTES) {
      range = { kind: "file", file, offset: part.offset, length: part.length };
    } else {
      fields.push(await walker.field(part));
    }
  }
  return decodeTensor(fields, range);
}

async function readGraph(
  walker: FieldWalker,
  file: string,
  fieldRange: FieldRange,
): Promise<Graph> {
  const nodes: Node[] = [];
  const initializers: Tensor[] = [];
  const inputs: ValueInfo[] = [];
  const outputs: ValueInfo[] = [];
  const valueInfos: ValueInfo[] = [];
  const rest: Field[] = [];
  let name = "";
  for await (
    const part of walker.ranges(fieldRange.offset, fieldRange.offset + fieldRange.length)
  ) {
    if (part.number === 5) {
      initializers.push(await readTensor(walker, file, part));
      continue;
    }
    const field = await walker.field(part);
    switch (field.number) {
      case 1:
        nodes.push(decodeNode(field.payload));
        break;
      case 2:
        name = decodeText(field);
        break;
      case 11:
        inputs.push(decodeValueInfo(field.payload));
        break;
      case 12:
        outputs.push(decodeValueInfo(field.payload));
        break;
      case 13:
        valueInfos.push(decodeValueInfo(field.payload));
        break;
      default:
        rest.push(field);
    }
  }
  return { name, nodes: sortNodes(nodes), initializers, inputs, outputs, valueInfos, rest };
}

/** Reads a constant into memory if the cut may need its elements. */
async function readConstant(tensor: Tensor, files: ModelFiles): Promise<Tensor> {
  const isTable = isIndexDtype(tensor.dtype) || isBiasTable(tensor.shape);
  const limit = isTable ? TABLE_BYTES : SMALL_BYTES;
  if (tensor.data.kind === "memory" || countStoredBytes(tensor) > limit) return tensor;
  return { ...tensor, data: { kind: "memory", bytes: await readStoredBytes(tensor, files) } };
}

/** Whether a constant may hold a bias for each head and key, `[heads, 1, keys]` or `[1, heads, 1, keys]`. */
function isBiasTable(shape: readonly number[]): boolean {
  const lead = shape.length - 3;
  return shape.at(-2) === 1 && (lead === 0 || (lead === 1 && shape[0] === 1));
}

/**
 * Reads a model, sorts its nodes topologically, widens bfloat16 to float32, and packs zero points. Of large weights,
 * only the positions in the file are read.
 *
 * @param file name of the graph among `files`.
 * @throws {StartupError} naming the file when it is not an ONNX model, or ends early.
 */
export async function readModel(files: ModelFiles, file: string): Promise<ModelProto> {
  try {
    return await readWhole(files, file);
  } catch (error) {
    if (error instanceof StartupError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartupError(`${file} is not an ONNX model: ${reason}`, { cause: error });
  }
}

async function readWhole(files: ModelFiles, file: string): Promise<ModelProto> {
  const walker = new FieldWalker(files, file);
  const operatorSets: OperatorSet[] = [];
  const rest: Field[] = [];
  let irVersion = 0;
  let graph: Graph | undefined;
  for await (const fieldRange of walker.ranges(0, await files.size(file))) {
    if (fieldRange.number === 7) {
      graph = await readGraph(walker, file, fieldRange);
      continue;
    }
    const field = await walker.field(fieldRange);
    if (field.number === 1) irVersion = readSmallVarint(field.payload);
    else if (field.number === 8) operatorSets.push(decodeOperatorSet(field.payload));
    else rest.push(field);
  }
  if (graph === undefined) throw new Error("it holds no graph.");
  const initializers: Tensor[] = [];
  for (const tensor of graph.initializers) initializers.push(await readConstant(tensor, files));
  const model = { irVersion, operatorSets, graph: { ...graph, initializers }, rest };
  const widened = widenBfloat16(model);
  return { ...widened, graph: await packZeroPoints(widened.graph, files) };
}
