/**
 * A sampler that returns the wanted rows instead of tokens: the last hidden state of a text, or the logits of a few
 * tokens.
 *
 * @module
 */
import type { Backend, LogitRows, TokenSampler } from "../device/backend.ts";
import type { GraphSession, Tensor } from "../device/ort/ort.ts";
import { int64Tensor, makeModel, makeNode } from "../graph/file/proto.ts";
import { makeValueInfo, writeModel } from "../graph/file/proto_codec.ts";
import type { SampledToken } from "./decoder.ts";
import type { PagedDecoder } from "./paged_decoder.ts";

/** The result for a row. Its token id is 0 and has no meaning. */
export interface RowToken extends SampledToken {
  /** The wanted numbers. */
  readonly row: Float32Array;
}

export class RowReader implements TokenSampler<RowToken> {
  readonly #backend: Backend;
  /** Selects elements of the decoder's rows, if not all are wanted. */
  readonly #head: GraphSession | undefined;

  private constructor(backend: Backend, head: GraphSession | undefined) {
    this.#backend = backend;
    this.#head = head;
  }

  /**
   * Opens a reader.
   *
   * @param output of the decoder.
   * @param columns the wanted elements of each row; all if absent.
   */
  static async open(
    backend: Backend,
    output: PagedDecoder["output"],
    columns?: readonly number[],
  ): Promise<RowReader> {
    const head = columns && await backend.openSession(buildHead(output, columns));
    return new RowReader(backend, head);
  }

  async sample(parts: Iterable<LogitRows> | AsyncIterable<LogitRows>): Promise<RowToken[]> {
    const tokens: RowToken[] = [];
    for await (const { logits } of parts) tokens.push(...await this.#read(logits));
    return tokens;
  }

  async dispose(): Promise<void> {
    await this.#head?.release();
  }

  async #read(output: Tensor): Promise<RowToken[]> {
    if (this.#head === undefined) return divide(await this.#backend.read(output), output.dims);
    const [input] = this.#head.inputs;
    const rows = Object.values(await this.#head.run({ [input!.name]: output }))[0]!;
    try {
      return divide(await this.#backend.read(rows), rows.dims);
    } finally {
      rows.dispose();
    }
  }
}

/** Divides `[1, rows, width]` into rows. */
function divide(values: Float32Array, [, numRows]: readonly number[]): RowToken[] {
  const width = values.length / numRows!;
  return Array.from({ length: numRows! }, (_, row) => ({
    tokenId: 0,
    logprob: 0,
    top: [],
    row: values.slice(row * width, (row + 1) * width),
  }));
}

function buildHead(
  { dtype, width }: PagedDecoder["output"],
  columns: readonly number[],
): Uint8Array {
  return writeModel(makeModel({
    name: "rows",
    nodes: [
      makeNode("Gather", ["rows", "columns"], ["chosen"], { attributes: { axis: 2 } }),
      makeNode("Cast", ["chosen"], ["wanted"], { attributes: { to: 1 } }),
    ],
    initializers: [int64Tensor("columns", [columns.length], columns)],
    inputs: [makeValueInfo("rows", dtype, [1, "rows", width])],
    outputs: [makeValueInfo("wanted", "float32", [1, "rows", columns.length])],
  }));
}
