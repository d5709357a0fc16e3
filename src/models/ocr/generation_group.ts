/**
 * Choices that began together and are written together, token by token: a merged graph that is not cut knows one past
 * length for all its rows.
 *
 * @module
 */
import { NothingToSampleError } from "../../../kernels/sample_error.ts";
import type { Sampler } from "../../backend/backend.ts";
import { disposeTensors, type Tensor, type Tensors } from "../../onnx/ort.ts";
import { encodeRows, type EncodingDeps } from "./generation_encoding.ts";
import { type GenerationJob, GenerationRow } from "./generation_row.ts";
import type { GenerationRules } from "./generation_rules.ts";
import type { JobGroup } from "../encoder_decoder/group_batcher.ts";
import type {
  DecoderState,
  DecoderStep,
  MergedDecoder,
} from "../encoder_decoder/merged_decoder.ts";
import { toTensor } from "./picture_encoder.ts";

/** What groups work with. */
export interface GenerationGroupDeps extends EncodingDeps {
  readonly decoder: MergedDecoder;
  readonly sampler: Sampler;
  readonly rules: GenerationRules;
}

/** See the module. */
export class GenerationGroup implements JobGroup {
  readonly #deps: GenerationGroupDeps;
  /** `undefined` has ended. */
  #rows: (GenerationRow | undefined)[];
  #state: DecoderState;
  /** Tokens of each row that the state has. */
  #numFed = 0;

  private constructor(
    deps: GenerationGroupDeps,
    rows: readonly GenerationRow[],
    state: DecoderState,
  ) {
    this.#deps = deps;
    this.#rows = [...rows];
    this.#state = state;
  }

  /** Encodes the jobs' pictures, all of one size, with texts of one length. */
  static async open(
    deps: GenerationGroupDeps,
    jobs: readonly GenerationJob[],
  ): Promise<GenerationGroup> {
    const rows = jobs.flatMap((job) =>
      job.samples.map((_, index) => new GenerationRow(job, index))
    );
    const hidden = await encodeRows(deps, rows);
    const numPlaces = hidden.dims[1]!;
    const state = await deps.decoder.begin(hidden);
    for (const job of jobs) job.onEncoded(numPlaces);
    return new GenerationGroup(deps, rows, state);
  }

  get numRows(): number {
    return this.#rows.filter((row) => row !== undefined).length;
  }

  async step(): Promise<boolean> {
    this.#leaveDropped();
    const living = this.#rows.find((row) => row !== undefined);
    if (living === undefined) return false;
    const tokens = this.#rows.map((row) => (row ?? living).tokens[this.#numFed]!);
    const before = this.#state;
    const { logits, state } = await this.#run(before, tokens);
    this.#state = state;
    this.#numFed++;
    disposeTensors(before.self);
    await this.#choose(logits);
    this.#leaveDropped();
    return this.numRows > 0;
  }

  dispose(): void {
    disposeTensors(this.#state.self);
    disposeTensors(this.#state.cross);
  }

  async #run(state: DecoderState, tokens: readonly number[]): Promise<DecoderStep> {
    const { decoder, encoder } = this.#deps;
    const ids = tokens.map((token) => [token]);
    if (decoder.tokenInput === "input_ids") return await decoder.step(state, toTensor(ids));
    const embedded = await encoder.embed(ids);
    try {
      return await decoder.step(state, embedded);
    } finally {
      embedded.dispose();
    }
  }

  /** Chooses the next token of each row whose prompt is over; frees the logits. */
  async #choose(logits: Tensor): Promise<void> {
    const { sampler, backend, rules } = this.#deps;
    try {
      const due = this.#rows.find((row) => row !== undefined && this.#isDue(row));
      if (due === undefined) return;
      const asked = this.#rows.map((row) =>
        (row !== undefined && this.#isDue(row) ? row : due).ask(rules)
      );
      const chosen = await sampler.sample(logits, asked);
      this.#rows = this.#rows.map((row, place) =>
        row !== undefined && this.#isDue(row) && row.take(chosen[place]!) ? undefined : row
      );
    } catch (error) {
      if (!(error instanceof NothingToSampleError)) throw error;
      this.#fail(error);
      const places = this.#compact();
      if (places.length > 0) {
        await this.#choose(backend.gatherRows([{ tensor: logits, rows: places }]));
      }
    } finally {
      logits.dispose();
    }
  }

  #isDue({ tokens }: GenerationRow): boolean {
    return tokens.length === this.#numFed;
  }

  /** Ends the jobs whose logits leave nothing to choose; the others go on. */
  #fail(error: NothingToSampleError): void {
    const failed = new Set(error.rows.flatMap((place) => this.#rows[place]?.job ?? []));
    for (const job of failed) job.onError(error);
    this.#rows = this.#rows.map((row) => row && failed.has(row.job) ? undefined : row);
  }

  /** Lets go of rows nobody waits for, once half of the state is theirs. */
  #leaveDropped(): void {
    this.#rows = this.#rows.map((row) => row?.job.isDropped() ? undefined : row);
    const { numRows } = this;
    if (numRows > 0 && numRows <= this.#rows.length / 2) this.#compact();
  }

  /** Leaves the state of living rows only. @returns their former places. */
  #compact(): number[] {
    const living = [...this.#rows.keys()].filter((place) => this.#rows[place] !== undefined);
    this.#rows = living.map((place) => this.#rows[place]);
    if (living.length === 0) return living;
    const before = this.#state;
    const take = (tensors: Tensors): Tensors =>
      Object.fromEntries(
        Object.entries(tensors).map(([name, tensor]) => [
          name,
          this.#deps.backend.gatherRows([{ tensor, rows: living }]),
        ]),
      );
    this.#state = { ...before, self: take(before.self), cross: take(before.cross) };
    disposeTensors(before.self);
    disposeTensors(before.cross);
    return living;
  }
}
