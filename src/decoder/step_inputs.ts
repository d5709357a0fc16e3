/**
 * The inputs of a cut graph that do not come from one of its segments.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import type { GraphCut, TensorPort } from "../graph/graph_cut.ts";
import { Tensor } from "../device/ort/ort.ts";
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
      allocate(ports.positions, numSections(ports.positions) * limits.maxBatchTokens);
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
      const sections = Array.from(
        { length: numSections(this.#positions.port) },
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

/** Number of rows of positions that a graph takes: one, or one per section of a rotary embedding in sections. */
function numSections({ shape }: TensorPort): number {
  return shape.reduce<number>(
    (product, dim) => typeof dim === "number" ? product * dim : product,
    1,
  );
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
