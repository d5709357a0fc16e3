/**
 * The inputs that decoder graphs take for a step. The inputs of a cut graph are token ids, positions and wanted rows. A
 * whole graph also takes a mask and the state of the sequence.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import { countPerRow, type GraphCut, type TensorPort } from "../graph/graph_cut.ts";
import { Tensor, type ValueInfo } from "../device/ort/ort.ts";
import type { DecoderLimits, StepBatch } from "./decoder.ts";

/** An int64 input: its values on the host, and on the device if the backend reads them there. */
interface Input {
  readonly port: TensorPort;
  readonly values: BigInt64Array<ArrayBuffer>;
  readonly storage: Storage | undefined;
}

/** Names and sizes of the inputs. */
type InputPorts = Pick<GraphCut, "positions" | "rows"> & { readonly tokens: TensorPort };

/** Token ids, positions and wanted rows of a step, in memory that is allocated once. */
export class StepInputs {
  readonly #tokens: Input;
  readonly #positions: Input | undefined;
  readonly #rows: Input;

  constructor(
    backend: Backend,
    ports: InputPorts,
    limits: Pick<DecoderLimits, "maxBatchTokens" | "maxSequences">,
  ) {
    const allocate = (port: TensorPort, length: number): Input => ({
      port,
      values: new BigInt64Array(length),
      storage: port.isIndex
        ? backend.allocate(length * BigInt64Array.BYTES_PER_ELEMENT)
        : undefined,
    });
    this.#tokens = allocate(ports.tokens, limits.maxBatchTokens);
    this.#positions = ports.positions &&
      allocate(ports.positions, countPerRow(ports.positions) * limits.maxBatchTokens);
    this.#rows = allocate(ports.rows, limits.maxSequences);
  }

  /** Writes a step's inputs. @returns them by name. */
  write(batch: StepBatch, rows: readonly number[]): Map<string, Tensor> {
    const { numTokens, tokenIds, positions, anglePositions = positions } = batch;
    const tensors = new Map([
      writeInput(this.#tokens, tokenIds.subarray(0, numTokens)),
      writeInput(this.#rows, rows),
    ]);
    if (this.#positions) {
      // One row of positions, or one for each section of a rotary embedding in sections.
      const sections = Array.from(
        { length: countPerRow(this.#positions.port) },
        (_, section) =>
          (batch.sectionPositions?.[section] ?? anglePositions).subarray(0, numTokens),
      );
      const [name, tensor] = writeInput(this.#positions, ...sections);
      tensors.set(name, tensor);
    }
    return tensors;
  }

  dispose(): void {
    for (const input of [this.#tokens, this.#positions, this.#rows]) input?.storage?.dispose();
  }
}

/** Writes an input. @param sources rows of the input, all of the same length. */
function writeInput(
  { port, values, storage }: Input,
  ...sources: readonly ArrayLike<number>[]
): [string, Tensor] {
  const length = sources[0]!.length;
  let end = 0;
  for (const source of sources) {
    for (let i = 0; i < length; i++) values[end++] = BigInt(source[i]!);
  }
  const dims = port.shape.map((dim) => typeof dim === "number" ? dim : length);
  const written = values.subarray(0, end);
  storage?.write(written);
  return [port.name, storage?.tensor("int64", dims) ?? new Tensor("int64", written, dims)];
}

/** Tokens `start` to `end` of a step. */
export interface StepTokens {
  readonly batch: StepBatch;
  readonly start: number;
  readonly end: number;
}

/** Makes the inputs of a whole decoder from the tokens to run, by name. */
export const STEP_INPUTS: ReadonlyMap<string, (tokens: StepTokens, input: ValueInfo) => Tensor> =
  new Map([
    [
      "input_ids",
      ({ batch, start, end }: StepTokens) => makeInt64Rows([batch.tokenIds.subarray(start, end)]),
    ],
    ["position_ids", makePositionIds],
    ["attention_mask", ({ batch, end }: StepTokens) => {
      const length = batch.positions[end - 1]! + 1;
      return new Tensor("int64", new BigInt64Array(length).fill(1n), [1, length]);
    }],
    // Some exports take the number of last rows to project to the vocabulary.
    ["num_logits_to_keep", () => new Tensor("int64", [1n], [])],
  ] as [string, (tokens: StepTokens, input: ValueInfo) => Tensor][]);

/** Makes an input of a whole decoder in the integers that the graph takes; `undefined` if the input is not known. */
export function makeStepInput(tokens: StepTokens, input: ValueInfo): Tensor | undefined {
  const made = STEP_INPUTS.get(input.name)?.(tokens, input);
  if (made === undefined || input.type !== "int32") return made;
  return new Tensor("int32", Int32Array.from(made.data as BigInt64Array, Number), made.dims);
}

/** Makes positions: `[1, tokens]`, or `[sections, 1, tokens]` if the graph has a rotary embedding in sections. */
function makePositionIds({ batch, start, end }: StepTokens, { shape }: ValueInfo): Tensor {
  const { positions, sectionPositions } = batch;
  if (shape.length !== 3) return makeInt64Rows([positions.subarray(start, end)]);
  const sections = typeof shape[0] === "number" ? shape[0] : 3;
  const rows = Array.from(
    { length: sections },
    (_, section) => (sectionPositions?.[section] ?? positions).subarray(start, end),
  );
  return makeInt64Rows(rows, [sections, 1, end - start]);
}

/** Makes an int64 input. @param dims dimensions; if absent, one row with a batch of one. */
function makeInt64Rows(
  rows: readonly Int32Array[],
  dims: readonly number[] = [1, rows[0]!.length],
): Tensor {
  const values = rows.flatMap((row) => Array.from(row, BigInt));
  return new Tensor("int64", BigInt64Array.from(values), dims);
}

/** Thrown when a whole decoder cannot run a graph. */
export class UnsupportedGraphError extends Error {
  override readonly name = "UnsupportedGraphError";
}

/** Sizes of a cache of keys and values: `[batch, kvHeads, tokens, headDim]`. */
export interface HeadSizes {
  readonly kvHeads: number | undefined;
  readonly headDim: number | undefined;
}

/** Matches names of keys and values, but not of other state. */
const KEYS_OR_VALUES = /\.(key|value)$|^past_(key|value)s?[._]\d+$/;

/**
 * Replaces symbolic head sizes of a cache input (`kv_cache_dim`) by numbers.
 *
 * @throws {UnsupportedGraphError} when a size is unknown.
 */
export function withHeadSizes(input: ValueInfo, sizes: HeadSizes | undefined): ValueInfo {
  const { name, shape } = input;
  if (shape.length !== 4 || !KEYS_OR_VALUES.test(name)) return input;
  const [batch, heads, tokens, dim] = shape as [Size, Size, Size, Size];
  const known = (symbol: Size, size: number | undefined) => {
    if (typeof symbol === "number") return symbol;
    if (size !== undefined) return size;
    throw new UnsupportedGraphError(
      `The cache input "${name}" leaves its size "${symbol}" open, and config.json does not give it.`,
    );
  };
  return {
    ...input,
    shape: [batch, known(heads, sizes?.kvHeads), tokens, known(dim, sizes?.headDim)],
  };
}

type Size = ValueInfo["shape"][number];

/** The state of a sequence that has not begun: no keys yet, and zero for other state. */
export function makeEmptyState({ name, type, shape }: ValueInfo): Tensor {
  const dims = shape.map((size, axis) =>
    typeof size === "number" ? size : axis === 0 || size.includes("batch") ? 1 : 0
  );
  const count = dims.reduce((product, size) => product * size, 1);
  if (type === "float32") return new Tensor(type, new Float32Array(count), dims);
  if (type === "float16") return new Tensor(type, new Uint16Array(count), dims);
  throw new UnsupportedGraphError(
    `The cache input "${name}" has element type ${type}; wanted float32 or float16.`,
  );
}
