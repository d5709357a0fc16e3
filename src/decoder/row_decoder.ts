/**
 * A decoder that returns numbers instead of tokens: the last hidden state of a text, or the logits of a few tokens.
 *
 * @module
 */
import type { Backend } from "../backend/backend.ts";
import type { GraphSession, Tensor } from "../onnx/runtime/ort.ts";
import { int64Tensor, makeNode } from "../onnx/file/proto.ts";
import { makeValueInfo, writeModel } from "../onnx/file/proto_write.ts";
import type { Decoder, DecoderLimits, SampledToken, StepBatch } from "./decoder.ts";
import type { PagedDecoder } from "./paged_decoder.ts";

/** Stands for a sampled token; it is not a token id. */
export interface RowToken extends SampledToken {
  /** The wanted numbers. */
  readonly row: Float32Array;
}

/** It owns the paged decoder. */
export class RowDecoder implements Decoder<RowToken> {
  readonly #backend: Backend;
  readonly #paged: PagedDecoder;
  /** From the decoder's rows to the wanted numbers, in float32. */
  readonly #head: GraphSession;

  private constructor(backend: Backend, paged: PagedDecoder, head: GraphSession) {
    this.#backend = backend;
    this.#paged = paged;
    this.#head = head;
  }

  /** @param columns the wanted elements of each row; all if absent. */
  static async open(
    backend: Backend,
    paged: PagedDecoder,
    columns?: readonly number[],
  ): Promise<RowDecoder> {
    const head = await backend.openSession(buildHead(paged.output, columns));
    return new RowDecoder(backend, paged, head);
  }

  get limits(): DecoderLimits {
    return this.#paged.limits;
  }

  async run(batch: StepBatch): Promise<RowToken[]> {
    const tokens: RowToken[] = [];
    for await (const { rows } of this.#paged.forward(batch)) tokens.push(...await this.#read(rows));
    return tokens;
  }

  async #read(output: Tensor): Promise<RowToken[]> {
    const [input] = this.#head.inputs;
    const rows = Object.values(await this.#head.run({ [input!.name]: output }))[0]!;
    try {
      const values = await this.#backend.read(rows);
      const numRows = rows.dims[1]!;
      const width = values.length / numRows;
      return Array.from({ length: numRows }, (_, row) => ({
        tokenId: 0,
        logprob: 0,
        top: [],
        row: values.slice(row * width, (row + 1) * width),
      }));
    } finally {
      rows.dispose();
    }
  }

  resizeCache(numBlocks: number): Promise<boolean> {
    return this.#paged.resizeCache(numBlocks);
  }

  async dispose(): Promise<void> {
    await this.#head.release();
    await this.#paged.dispose();
  }
}

function buildHead(
  { dtype, width }: PagedDecoder["output"],
  columns: readonly number[] | undefined,
): Uint8Array {
  const chosen = columns === undefined ? "rows" : "rows/chosen";
  return writeModel({
    irVersion: 8,
    operatorSets: [{ domain: "", version: 17 }],
    graph: {
      name: "rows",
      nodes: [
        ...(columns === undefined ? [] : [
          makeNode("Gather", ["rows", "columns"], [chosen], { attributes: { axis: 2 } }),
        ]),
        makeNode("Cast", [chosen], ["wanted"], { attributes: { to: 1 } }),
      ],
      initializers: columns === undefined
        ? []
        : [int64Tensor("columns", [columns.length], columns)],
      inputs: [makeValueInfo("rows", dtype, [1, "rows", width])],
      outputs: [makeValueInfo("wanted", "float32", [1, "rows", columns?.length ?? width])],
      valueInfos: [],
      rest: [],
    },
    rest: [],
  });
}
