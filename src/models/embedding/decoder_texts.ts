/**
 * Runs texts on a decoder. Each text is a sequence of the paged engine, which packs texts without padding and computes
 * shared prefixes once. The result is the row of the text's last token.
 *
 * @module
 */
import { GREEDY } from "../../decoder/decoder.ts";
import { PagedDecoder } from "../../decoder/paged_decoder.ts";
import { RowReader, type RowToken } from "../../decoder/row_reader.ts";
import { generate, warmUp } from "../../engine/generate.ts";
import { EngineLoop } from "../../engine/loop.ts";
import type { EngineMetrics } from "../../engine/metrics.ts";
import { mostBlocks } from "../../engine/length_limits.ts";
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
  const { decoder } = await loadDecoder(options);
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
  const rows = await decoder.giving(reader);
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
