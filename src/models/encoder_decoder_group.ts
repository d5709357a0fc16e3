/**
 * Requests that an encoder-decoder model answers together, token by token.
 *
 * The merged graph knows one past length for all rows, so what began together stays together.
 *
 * @module
 */
import { NothingToSampleError } from "../../kernels/sample_error.ts";
import type { Backend, Sampler } from "../backend/backend.ts";
import type { SampledToken, SampleRow, SamplingParams } from "../decoder/decoder.ts";
import { SamplingState } from "../engine/sampling_state.ts";
import { Tensor, type Tensors } from "../onnx/ort.ts";
import type { EncoderDecoderGraphs } from "./encoder_decoder_graphs.ts";
import { allowedAfter, type GenerationRules } from "./generation_rules.ts";
import type { GroupJob, JobGroup } from "./group_batcher.ts";
import { type DecoderState, disposeTensors } from "./merged_decoder.ts";

/** What groups work with. */
export interface GenerationDeps {
  readonly backend: Backend;
  readonly graphs: EncoderDecoderGraphs;
  readonly sampler: Sampler;
  readonly rules: GenerationRules;
  /** Most values of prepared pictures that the encoder takes in one piece. */
  readonly maxEncoderValues: number;
}

/** A picture and what is to be written about it. */
export interface GenerationJob extends GroupJob {
  /** f32 `[1, channels, height, width]`, on the CPU. */
  readonly pixels: Tensor;
  /** Token ids of the text that the encoder reads. */
  readonly text: readonly number[];
  /** Token ids that the decoder begins with, at least one. */
  readonly prompt: readonly number[];
  /** Each is a choice of its own. */
  readonly samples: readonly SamplingParams[];
  readonly logitBias: ReadonlyMap<number, number> | undefined;
  readonly topLogprobs: number;
  /** Most tokens of a choice; at least 1. */
  readonly maxTokens: number;
  /** The picture was read. @param numPlaces of the encoder's output. */
  readonly onEncoded: (numPlaces: number) => void;
  /**
   * A choice got a token.
   *
   * @param isLast whether the choice has no room for another.
   * @returns whether the choice ends with it; one that `isLast` ends anyhow.
   */
  readonly onToken: (index: number, token: SampledToken, isLast: boolean) => boolean;
  /** All choices have ended. */
  readonly onDone: () => void;
}

/** A choice on its way. */
interface Row {
  readonly job: GenerationJob;
  readonly index: number;
  /** Prompt, then completion. */
  readonly tokens: number[];
  readonly sampling: SamplingState;
}

/** See the module. */
export class GenerationGroup implements JobGroup {
  readonly #deps: GenerationDeps;
  readonly #numUnfinished: Map<GenerationJob, number>;
  /** `undefined` has ended. */
  #rows: (Row | undefined)[];
  #state: DecoderState;
  /** Tokens of each row that the state has. */
  #numFed = 0;

  private constructor(deps: GenerationDeps, rows: readonly Row[], state: DecoderState) {
    this.#deps = deps;
    this.#rows = [...rows];
    this.#state = state;
    this.#numUnfinished = new Map(rows.map(({ job }) => [job, job.samples.length]));
  }

  /** Encodes the jobs' pictures, all of one size, with texts of one length. */
  static async open(
    deps: GenerationDeps,
    jobs: readonly GenerationJob[],
  ): Promise<GenerationGroup> {
    const hidden = await encode(deps, jobs);
    const [, numPlaces = 0] = hidden.dims;
    const state = await deps.graphs.begin(hidden);
    for (const job of jobs) job.onEncoded(numPlaces);
    return new GenerationGroup(deps, jobs.flatMap(rowsOf), state);
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
    const { logits, state } = await this.#deps.graphs.step(before, tokens);
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

  /** Chooses the next token of each row whose prompt is over; frees the logits. */
  async #choose(logits: Tensor): Promise<void> {
    const { sampler, backend } = this.#deps;
    try {
      const due = this.#rows.find((row) => row !== undefined && this.#isDue(row));
      if (due === undefined) return;
      const asked = this.#rows.map((row) =>
        this.#ask(row !== undefined && this.#isDue(row) ? row : due)
      );
      const chosen = await sampler.sample(logits, asked);
      this.#rows.forEach((row, place) => {
        if (row !== undefined && this.#isDue(row)) this.#take(place, chosen[place]!);
      });
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

  #isDue({ tokens }: Row): boolean {
    return tokens.length === this.#numFed;
  }

  #ask({ tokens, sampling, job }: Row): SampleRow {
    const { params, tokenIndex, adjustments, topLogprobs } = sampling;
    const mask = allowedAfter(tokens, job.prompt.length, this.#deps.rules);
    return { params, tokenIndex, adjustments, topLogprobs, mask };
  }

  #take(place: number, token: SampledToken): void {
    const { job, index, tokens, sampling } = this.#rows[place]!;
    if (job.isDropped()) return;
    tokens.push(token.tokenId);
    sampling.push(token.tokenId);
    const isLast = tokens.length - job.prompt.length === job.maxTokens;
    if (!job.onToken(index, token, isLast) && !isLast) return;
    this.#rows[place] = undefined;
    const numUnfinished = this.#numUnfinished.get(job)! - 1;
    this.#numUnfinished.set(job, numUnfinished);
    if (numUnfinished === 0) job.onDone();
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

function rowsOf(job: GenerationJob): Row[] {
  const { prompt, samples, logitBias, topLogprobs } = job;
  return samples.map((params, index) => ({
    job,
    index,
    tokens: [...prompt],
    sampling: new SamplingState(Int32Array.from(prompt), { params, logitBias, topLogprobs }),
  }));
}

/** The encoder's output, a row for each choice. */
async function encode(
  { backend, graphs, maxEncoderValues }: GenerationDeps,
  jobs: readonly GenerationJob[],
): Promise<Tensor> {
  const size = Math.max(1, Math.floor(maxEncoderValues / jobs[0]!.pixels.size));
  const parts: { tensor: Tensor; rows: number[] }[] = [];
  for (let from = 0; from < jobs.length; from += size) {
    const piece = jobs.slice(from, from + size);
    const tensor = await graphs.encode({
      pixels: stack(piece.map(({ pixels }) => pixels)),
      texts: piece.map(({ text }) => text),
    });
    parts.push({ tensor, rows: piece.flatMap(({ samples }, row) => samples.map(() => row)) });
  }
  const [only, ...others] = parts;
  if (others.length === 0 && only!.rows.every((row, place) => row === place)) return only!.tensor;
  const all = backend.gatherRows(parts);
  for (const { tensor } of parts) tensor.dispose();
  return all;
}

function stack(pictures: readonly Tensor[]): Tensor {
  const [first] = pictures;
  if (pictures.length === 1) return first!;
  const data = new Float32Array(pictures.length * first!.size);
  pictures.forEach((picture, row) => data.set(picture.data as Float32Array, row * first!.size));
  return new Tensor("float32", data, [pictures.length, ...first!.dims.slice(1)]);
}
