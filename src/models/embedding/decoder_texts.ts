/**
 * Runs texts on a decoder. Each text is a sequence of the paged engine, which packs texts without padding and computes
 * shared prefixes once. The result is the row of the text's last token.
 *
 * @module
 */
import { GREEDY, type SampledToken } from "../../decoder/decoder.ts";
import { PagedDecoder } from "../../decoder/paged_decoder.ts";
import type { Backend, LogitRows, TokenSampler } from "../../device/backend.ts";
import type { GraphSession, Tensor } from "../../device/ort/ort.ts";
import { generate, warmUp } from "../../engine/generate.ts";
import { EngineLoop } from "../../engine/loop.ts";
import type { EngineMetrics } from "../../engine/metrics.ts";
import { mostBlocks } from "../../engine/length_limits.ts";
import { int64Tensor, makeModel, makeNode } from "../../graph/file/proto.ts";
import { makeValueInfo, writeModel } from "../../graph/file/proto_codec.ts";
import { StartupError } from "../../base/errors.ts";
import { type DecoderLoadOptions, loadDecoder } from "../folder/decoder_load.ts";
import type { TextJob, TextRunner } from "./text_batcher.ts";

class DecoderTexts implements TextRunner {
  readonly #decoder: PagedDecoder<RowToken>;
  readonly #engine: EngineLoop<RowToken>;

  /** @param options.prefixCache whether texts of different requests share equal prefixes. */
  constructor(decoder: PagedDecoder<RowToken>, options: { readonly prefixCache: boolean }) {
    this.#decoder = decoder;
    this.#engine = new EngineLoop(decoder, options);
  }

  get metrics(): EngineMetrics {
    return this.#engine.metrics;
  }

  /** Runs a job with no more texts in the engine than fit into one step, so that other jobs get their share. */
  async run(job: TextJob, signal: AbortSignal): Promise<number> {
    const failure = new AbortController();
    const ends = AbortSignal.any([signal, failure.signal]);
    let [numStarted, numTokens] = [0, 0];
    const runNext = async () => {
      const index = numStarted++;
      try {
        const { ids } = job.encode(index);
        numTokens += ids.length;
        await this.#runText(ids, { signal: ends, onRow: (row) => job.onRow(index, row) });
      } catch (error) {
        failure.abort(error);
        throw error;
      }
    };
    const runRest = async () => {
      while (!ends.aborted && numStarted < job.numTexts) await runNext();
    };
    // The first text runs alone, so that the others find the shared prefix in the cache.
    if (job.beginsAlike) await runNext();
    await Promise.all(Array.from({ length: this.#engine.limits.maxSequences }, runRest));
    return numTokens;
  }

  async dispose(): Promise<void> {
    await this.#engine.close();
    await this.#decoder.dispose();
  }

  async #runText(ids: readonly number[], { signal, onRow }: {
    readonly signal: AbortSignal;
    readonly onRow: (row: Float32Array) => void;
  }): Promise<void> {
    await generate(this.#engine, {
      promptTokens: Int32Array.from(ids),
      // The sampled token is not used, but the engine requires parameters.
      sample: GREEDY,
      maxTokens: 1,
      topLogprobs: 0,
      signal,
      onToken: ({ row }) => {
        onRow(row);
        return true;
      },
    });
  }
}

/**
 * Loads a folder's decoder to compute rows for texts instead of completions.
 *
 * @param columns indices of the elements of each row to read; all if absent.
 * @throws {StartupError} when the graph cannot be cut, as decoders do not run padded batches; when a column is not in
 * the output.
 */
export async function loadDecoderTexts(
  options: DecoderLoadOptions,
  columns?: readonly number[],
): Promise<{ readonly texts: TextRunner; readonly width: number; readonly maxTokens: number }> {
  const { backend, engine, folder } = options;
  const { decoder } = await loadDecoder({ ...options, readsRows: true });
  if (!(decoder instanceof PagedDecoder)) {
    await decoder.dispose();
    throw new StartupError(
      `The decoder in ${folder.path} cannot be cut at its attention nodes, which embedding and reranking require. ` +
        "The log gives the reason, and `inspect` the details.",
    );
  }
  const { width } = decoder.output;
  const outside = columns?.find((column) => column >= width);
  if (outside !== undefined) {
    await decoder.dispose();
    throw new StartupError(
      `${folder.path} scores by the token ${outside} (1_LogitScore/config.json), but its graph gives logits of ${width} tokens.`,
    );
  }
  const reader = await RowReader.open(backend, decoder.output, columns);
  const rows = await decoder.withSampler(reader);
  options.onProgress({ what: "warming up" });
  await warmUp(rows);
  const { contextLength, blockSize } = rows.limits;
  return {
    texts: new DecoderTexts(rows, engine),
    width: columns?.length ?? width,
    // The engine reserves one position for the next token.
    maxTokens: Math.min(contextLength - 1, mostBlocks(rows.limits) * blockSize),
  };
}

/** The result for a row. Its token id is 0 and has no meaning. */
export interface RowToken extends SampledToken {
  /** The wanted numbers. */
  readonly row: Float32Array;
}

/**
 * A sampler that returns the wanted rows instead of tokens: the last hidden state of a text, or the logits of a few
 * tokens.
 */
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
