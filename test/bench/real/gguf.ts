/**
 * Writes GGUF files with random weights and Qwen3's tokens, for llama.cpp.
 *
 * @see https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 * @module
 */
import { join } from "node:path";
import { Random } from "./random.ts";
import { twinFolder } from "./twin.ts";
import { readVocabulary } from "./vocabulary.ts";

const ALIGNMENT = 32;
/** Value types of the header. */
const TYPE = { uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 } as const;
/** Tensor types. */
const F32 = 0;
const Q4_0 = 2;
/** Weights in a Q4_0 block, and its bytes: a scale in half precision, then the nibbles. */
const BLOCK = 32;
const BLOCK_BYTES = 18;

/** A tensor of random weights, or filled with one number. */
export interface GgufTensor {
  readonly name: string;
  /** Sizes, innermost first. */
  readonly shape: readonly number[];
  readonly type: typeof F32 | typeof Q4_0;
  /** The number that fills an f32 tensor. */
  readonly value?: number;
}

/** A matrix of random weights in Q4_0, of the same magnitude as in the ONNX twins. */
export function q4(name: string, [from, to]: readonly [number, number]): GgufTensor {
  return { name, shape: [from, to], type: Q4_0 };
}

/** A tensor of f32, such as a norm of ones. */
export function f32(name: string, shape: readonly number[], value = 1): GgufTensor {
  return { name, shape, type: F32, value };
}

/** The content of a file, without the vocabulary. */
export interface GgufModel {
  /** Name of the file, and of its folder. */
  readonly name: string;
  readonly architecture: string;
  /** Number of tokens. */
  readonly vocab: number;
  /** Unsigned integers, or lists of signed ones, by their keys without the architecture. */
  readonly ints: Readonly<Record<string, number | readonly number[]>>;
  readonly floats: Readonly<Record<string, number>>;
  readonly tensors: readonly GgufTensor[];
}

/** The path of a model's file, which is written if it does not exist. */
export async function ggufFile(model: GgufModel): Promise<string> {
  const file = `${model.name}.gguf`;
  const folder = await twinFolder(model.name, (folder) => writeGguf(join(folder, file), model));
  return join(folder, file);
}

async function writeGguf(path: string, model: GgufModel): Promise<void> {
  using file = await Deno.create(path);
  const writer = file.writable.getWriter();
  const { tensors } = model;
  const head = new HeaderWriter();
  const metadata = [...describe(model), ...await describeVocabulary(model.vocab)];
  head.uint32(0x46554747).uint32(3).uint64(tensors.length).uint64(metadata.length);
  for (const [key, write] of metadata) {
    head.text(key);
    write(head);
  }
  let offset = 0;
  for (const tensor of tensors) {
    head.text(tensor.name).uint32(tensor.shape.length);
    for (const size of tensor.shape) head.uint64(size);
    head.uint32(tensor.type).uint64(offset);
    offset += aligned(computeSize(tensor));
  }
  const header = head.finish();
  await writer.write(padded(header));
  const random = new Random(1);
  for (const tensor of tensors) await writer.write(padded(fill(tensor, random)));
  await writer.close();
}

type Write = (head: HeaderWriter) => unknown;

function text(value: string): Write {
  return (head) => head.uint32(TYPE.string).text(value);
}

function int(value: number): Write {
  return (head) => head.uint32(TYPE.uint32).uint32(value);
}

function ints(values: readonly number[]): Write {
  return (head) => {
    head.uint32(TYPE.array).uint32(TYPE.int32).uint64(values.length);
    for (const value of values) head.uint32(value);
  };
}

function texts(values: readonly string[]): Write {
  return (head) => {
    head.uint32(TYPE.array).uint32(TYPE.string).uint64(values.length);
    for (const value of values) head.text(value);
  };
}

function float(value: number): Write {
  return (head) => head.uint32(TYPE.float32).float32(value);
}

function describe({ architecture, ...model }: GgufModel): [string, Write][] {
  const own = (key: string) => `${architecture}.${key}`;
  return [
    ["general.architecture", text(architecture)],
    ["general.name", text("random")],
    ["general.file_type", int(Q4_0)],
    ["general.alignment", int(ALIGNMENT)],
    ...Object.entries(model.ints).map(([key, value]): [string, Write] => [
      own(key),
      typeof value === "number" ? int(value) : ints(value),
    ]),
    ...Object.entries(model.floats).map(([key, value]): [string, Write] => [
      own(key),
      float(value),
    ]),
  ];
}

async function describeVocabulary(size: number): Promise<[string, Write][]> {
  const { tokens, added, unused, merges, eos, pad } = await readVocabulary(size);
  const [normal, control, none] = [1, 3, 5];
  const types = tokens.map((_, id) => added.has(id) ? control : unused.has(id) ? none : normal);
  return [
    ["tokenizer.ggml.model", text("gpt2")],
    ["tokenizer.ggml.pre", text("qwen2")],
    ["tokenizer.ggml.tokens", texts(tokens)],
    ["tokenizer.ggml.token_type", ints(types)],
    ["tokenizer.ggml.merges", texts(merges)],
    ["tokenizer.ggml.eos_token_id", int(eos)],
    ["tokenizer.ggml.padding_token_id", int(pad)],
    ["tokenizer.ggml.bos_token_id", int(pad)],
    ["tokenizer.ggml.add_bos_token", (head) => head.uint32(TYPE.bool).byte(0)],
  ];
}

function computeSize({ type, shape }: GgufTensor): number {
  const count = shape.reduce((product, size) => product * size, 1);
  return type === F32 ? count * 4 : count / BLOCK * BLOCK_BYTES;
}

function fill(tensor: GgufTensor, random: Random): Uint8Array<ArrayBuffer> {
  const size = computeSize(tensor);
  if (tensor.type === F32) {
    return new Uint8Array(new Float32Array(size / 4).fill(tensor.value ?? 1).buffer);
  }
  const unit = 0.11 / Math.sqrt(tensor.shape[0]!);
  const numBlocks = size / BLOCK_BYTES;
  const scales = new Float16Array(random.floats(numBlocks, { low: unit, high: 3 * unit }));
  const scaleBytes = new Uint8Array(scales.buffer);
  const bytes = random.bytes(size);
  for (let block = 0; block < numBlocks; block++) {
    bytes[block * BLOCK_BYTES] = scaleBytes[2 * block]!;
    bytes[block * BLOCK_BYTES + 1] = scaleBytes[2 * block + 1]!;
  }
  return bytes;
}

function aligned(size: number): number {
  return Math.ceil(size / ALIGNMENT) * ALIGNMENT;
}

function padded(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  if (bytes.length % ALIGNMENT === 0) return bytes;
  const longer = new Uint8Array(aligned(bytes.length));
  longer.set(bytes);
  return longer;
}

/** Writes little-endian numbers, and texts with their lengths. */
class HeaderWriter {
  #bytes = new Uint8Array(1 << 20);
  #length = 0;

  byte(value: number): this {
    this.#reserve(1)[0] = value;
    return this;
  }

  uint32(value: number): this {
    this.#view(4).setUint32(0, value, true);
    return this;
  }

  uint64(value: number): this {
    this.#view(8).setBigUint64(0, BigInt(value), true);
    return this;
  }

  float32(value: number): this {
    this.#view(4).setFloat32(0, value, true);
    return this;
  }

  text(value: string): this {
    const bytes = new TextEncoder().encode(value);
    this.uint64(bytes.length).#reserve(bytes.length).set(bytes);
    return this;
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  #view(size: number): DataView {
    const { buffer, byteOffset } = this.#reserve(size);
    return new DataView(buffer, byteOffset, size);
  }

  #reserve(size: number): Uint8Array<ArrayBuffer> {
    const start = this.#length;
    this.#length += size;
    if (this.#length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(2 * this.#bytes.length, this.#length));
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    return this.#bytes.subarray(start, this.#length);
  }
}
