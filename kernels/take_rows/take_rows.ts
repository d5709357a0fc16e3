/**
 * Copies rows of a table by number: embeddings of token ids, and the rows of a step that are needed.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import source from "./take_rows.wgsl" with { type: "text" };

/** The parameters of the kernel. */
export interface TakeRowsParams {
  /** Bytes in a row, a multiple of 4. */
  readonly rowBytes: number;
  /** Number of rows in the table; larger numbers read the last row. */
  readonly tableRows: number;
}

const BINDINGS = { table: "read", numbers: "read", out: "read_write" } as const;
const THREADS = 64;

/** `out[row] = table[numbers[row]]`, for any data type. */
export class TakeRows {
  readonly #workgroups: number;
  readonly #kernel: Kernel<typeof BINDINGS>;

  /** @throws {RangeError} when rows do not consist of whole words. */
  constructor(gpu: GpuContext, { rowBytes, tableRows }: TakeRowsParams) {
    if (rowBytes % 4 !== 0) {
      throw new RangeError(`Rows of ${rowBytes} bytes: take_rows copies multiples of 4.`);
    }
    this.#workgroups = Math.ceil(rowBytes / 4 / THREADS);
    this.#kernel = Kernel.get(gpu, {
      name: "take_rows",
      source,
      bindings: BINDINGS,
      constants: { WIDTH: rowBytes / 4, NUM_ROWS: tableRows },
    });
  }

  /**
   * Appends the copy of `numRows` rows: one dispatch.
   *
   * @param tensors `table` and `out` `[rows, rowBytes]`, `numbers` int64 `[numRows]`, not negative.
   */
  encode(
    pass: ComputePass,
    tensors: Readonly<Record<keyof typeof BINDINGS, GPUBuffer>>,
    numRows: number,
  ): void {
    this.#kernel.encode(pass, tensors, [this.#workgroups, numRows]);
  }
}
