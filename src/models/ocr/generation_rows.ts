/**
 * Choices that are written together whatever their age: each joins with its picture's encoding and leaves with its end.
 *
 * @module
 */
import { NothingToSampleError } from "../../../kernels/sample_error.ts";
import type { Sampler } from "../../backend/backend.ts";
import type { Tensor } from "../../onnx/ort.ts";
import { type CutDecoder, MAX_ROW_TOKENS } from "../encoder_decoder/cut_decoder.ts";
import { encodeRows, type EncodingDeps } from "./generation_encoding.ts";
import { type GenerationJob, GenerationRow } from "./generation_row.ts";
import type { GenerationRules } from "./generation_rules.ts";
import type { GroupJob } from "../encoder_decoder/job_batcher.ts";
import type { JobRows } from "../encoder_decoder/row_batcher.ts";

/** One choice of a job. */
export interface ChoiceJob extends GroupJob {
  readonly job: GenerationJob;
  readonly index: number;
}

/** What they work with. */
export interface GenerationRowsDeps extends EncodingDeps {
  readonly decoder: CutDecoder;
  readonly sampler: Sampler;
  readonly rules: GenerationRules;
}

/** A choice in work. */
interface Entry {
  readonly choice: ChoiceJob;
  readonly row: GenerationRow;
  readonly slot: number;
  /** Tokens that the decoder has. */
  position: number;
}

/** See the module. */
export class GenerationRows implements JobRows<ChoiceJob> {
  readonly #deps: GenerationRowsDeps;
  readonly #freeSlots: number[];
  #entries: Entry[] = [];

  constructor(deps: GenerationRowsDeps) {
    this.#deps = deps;
    this.#freeSlots = [...Array(deps.decoder.maxRows).keys()].reverse();
  }

  get numRows(): number {
    return this.#entries.length;
  }

  get numFree(): number {
    return this.#freeSlots.length;
  }

  async admit(choices: readonly ChoiceJob[]): Promise<void> {
    const slots = this.#freeSlots.splice(-choices.length);
    const rows = choices.map(({ job, index }) => new GenerationRow(job, index));
    let numPlaces: number;
    try {
      const hidden = await encodeRows(this.#deps, rows);
      numPlaces = hidden.dims[1]!;
      await this.#deps.decoder.keep(hidden, slots);
    } catch (error) {
      this.#freeSlots.push(...slots);
      throw error;
    }
    for (const job of new Set(choices.map(({ job }) => job))) job.onEncoded(numPlaces);
    choices.forEach((choice, i) =>
      this.#entries.push({ choice, row: rows[i]!, slot: slots[i]!, position: 0 })
    );
  }

  async step(): Promise<void> {
    this.#leave(this.#entries.filter(({ choice }) => choice.isDropped()));
    const entries = this.#entries;
    if (entries.length === 0) return;
    const fed = entries.map(({ row, slot, position }) => ({
      slot,
      position,
      tokens: row.tokens.slice(position, position + MAX_ROW_TOKENS),
    }));
    const logits = await this.#deps.decoder.step(fed);
    await this.#choose(logits, fed.map(({ tokens, position }) => position + tokens.length));
  }

  clear(): ChoiceJob[] {
    const choices = this.#entries.map(({ choice }) => choice);
    this.#leave(this.#entries);
    return choices;
  }

  /**
   * Chooses the next token of the choices whose prompt is over. On failure the step counts for nothing, and the choices
   * it did not fail for run it again.
   *
   * @param lengths tokens of each that the decoder has now.
   */
  async #choose(logits: Tensor, lengths: readonly number[]): Promise<void> {
    const { sampler, rules } = this.#deps;
    const entries = this.#entries;
    const isDue = entries.map(({ row }, i) => lengths[i] === row.tokens.length);
    const due = entries.find((_, i) => isDue[i]);
    let ended: Entry[] = [];
    if (due !== undefined) {
      try {
        const asked = entries.map(({ row }, i) => (isDue[i] ? row : due.row).ask(rules));
        const chosen = await sampler.sample(logits, asked);
        ended = entries.filter(({ row }, i) => isDue[i] && row.take(chosen[i]!));
      } catch (error) {
        if (!(error instanceof NothingToSampleError)) throw error;
        const failed = error.rows.map((i) => entries[i]!);
        for (const { choice } of failed) choice.onError(error);
        return this.#leave(failed);
      }
    }
    entries.forEach((entry, i) => entry.position = lengths[i]!);
    this.#leave(ended);
  }

  #leave(entries: readonly Entry[]): void {
    if (entries.length === 0) return;
    this.#freeSlots.push(...entries.map(({ slot }) => slot));
    this.#entries = this.#entries.filter((entry) => !entries.includes(entry));
  }
}
