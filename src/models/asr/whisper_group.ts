/**
 * Windows that are decoded together, token by token.
 *
 * The merged graph knows one past length for all rows, so windows that began together stay together; one that needs
 * another attempt goes on when the others have ended, from the state after the first token, which is kept.
 *
 * @module
 */
import type { Sampler } from "../../backend/backend.ts";
import type { SpeechKernels } from "../../backend/speech.ts";
import { disposeTensors, Tensor, type Tensors } from "../../onnx/ort.ts";
import type { WhisperConfig } from "./whisper_config.ts";
import type {
  DecoderState,
  DecoderStep,
  MergedDecoder,
} from "../encoder_decoder/merged_decoder.ts";
import type { WhisperGraphs } from "./whisper_graphs.ts";
import { detectLanguage } from "./detect_language.ts";
import { WindowAttempts, type WindowJob } from "./whisper_window.ts";

/** What groups work with. */
export interface GroupDeps {
  readonly graphs: WhisperGraphs;
  readonly decoder: MergedDecoder;
  readonly speech: SpeechKernels;
  readonly sampler: Sampler;
  readonly config: WhisperConfig;
}

interface Row {
  readonly job: WindowJob;
  readonly attempts: WindowAttempts;
  /** Place in the state after the first token. */
  readonly startRow: number;
}

/** See the module. */
export class WindowGroup {
  readonly #deps: GroupDeps;
  readonly #start: DecoderStep;
  /** Rows of the state at hand; `undefined` has ended. */
  #rows: (Row | undefined)[];
  #state: DecoderState;
  /** Tokens of the attempt that the state has, the first one aside. */
  #numTokens = 0;
  /** Rows whose next attempt waits for the end of the others. */
  #again: Row[] = [];

  private constructor(deps: GroupDeps, start: DecoderStep, rows: Row[]) {
    this.#deps = deps;
    this.#start = start;
    this.#rows = rows;
    this.#state = start.state;
  }

  /** Encodes windows, and tells how likely each is silent and what language it has. */
  static async open(deps: GroupDeps, jobs: readonly WindowJob[]): Promise<WindowGroup> {
    const { graphs, decoder, speech, config } = deps;
    const features = speech.features(jobs.map(({ task }) => task.row));
    const state = await decoder.begin(await graphs.encode(features));
    const startTokens = toTensor(jobs.map(() => config.startToken));
    const start = await decoder.step(state, startTokens);
    const rows = jobs.map((job, startRow): Row => {
      return { job, attempts: new WindowAttempts(job.task, config), startRow };
    });
    const group = new WindowGroup(deps, start, rows);
    await detectLanguage(deps, start.logits, rows.map(({ attempts }) => attempts));
    if (rows[0]!.attempts.prompt.length === 0) await group.#choose(start.logits);
    return group;
  }

  /** Windows in work. */
  get numRows(): number {
    return this.#rows.filter((row) => row !== undefined).length + this.#again.length;
  }

  /** Runs the next token of all windows. @returns whether there is more to do. */
  async step(): Promise<boolean> {
    await this.#leaveDropped();
    if (!this.#rows.some((row) => row !== undefined)) return false;
    const tokens = this.#rows.map((row) => {
      if (row === undefined) return this.#deps.config.endToken;
      return row.attempts.prompt[this.#numTokens] ?? row.attempts.lastToken;
    });
    const before = this.#state;
    const { logits, state } = await this.#deps.decoder.step(before, toTensor(tokens));
    this.#state = state;
    this.#freeSelf(before);
    this.#numTokens++;
    try {
      await this.#choose(logits);
    } finally {
      logits.dispose();
    }
    await this.#leaveDropped();
    return this.#rows.some((row) => row !== undefined);
  }

  /** Frees what it holds. */
  dispose(): void {
    this.#freeState();
    this.#start.logits.dispose();
    disposeTensors(this.#start.state.self);
    disposeTensors(this.#start.state.cross);
  }

  /** Chooses the next token of each row, once the prompt is over. */
  async #choose(logits: Tensor): Promise<void> {
    const { speech, sampler } = this.#deps;
    const living = this.#rows.find((row) => row !== undefined);
    if (living === undefined || this.#numTokens < living.attempts.prompt.length) return;
    speech.restrict(logits, this.#rows.map((row) => (row ?? living).attempts.rule));
    const rows = this.#rows.map((row) => (row ?? living).attempts.sampling);
    const chosen = await sampler.sample(logits, rows);
    this.#rows.forEach((row, place) => {
      if (row === undefined || row.job.isDropped()) return;
      const outcome = row.attempts.push(chosen[place]!);
      if (outcome === "next") return;
      this.#rows[place] = undefined;
      if (outcome === "again") this.#again.push(row);
      else row.job.onDone(outcome);
    });
  }

  /** Lets go of rows that have ended, and begins the next attempts when no row is left. */
  async #leaveDropped(): Promise<void> {
    this.#rows = this.#rows.map((row) => row?.job.isDropped() ? undefined : row);
    this.#again = this.#again.filter(({ job }) => !job.isDropped());
    const living = [...this.#rows.keys()].filter((place) => this.#rows[place] !== undefined);
    if (living.length === 0 && this.#again.length > 0) return await this.#beginAgain();
    if (living.length === 0 || living.length > this.#rows.length / 2) return;
    const before = this.#state;
    this.#state = this.#takeRows(before, living);
    this.#rows = living.map((place) => this.#rows[place]);
    this.#free(before);
  }

  async #beginAgain(): Promise<void> {
    this.#freeState();
    this.#rows = this.#again;
    this.#again = [];
    const places = this.#rows.map((row) => row!.startRow);
    const { state, logits } = this.#start;
    this.#state = this.#takeRows(state, places);
    this.#numTokens = 0;
    if (this.#rows[0]!.attempts.prompt.length > 0) return;
    const own = this.#deps.speech.takeRows(logits, places);
    await this.#choose(own);
    own.dispose();
  }

  #takeRows(state: DecoderState, places: readonly number[]): DecoderState {
    const take = (tensors: Tensors) =>
      Object.fromEntries(
        Object.entries(tensors).map(([name, tensor]) => [
          name,
          this.#deps.speech.takeRows(tensor, places),
        ]),
      );
    return { ...state, self: take(state.self), cross: take(state.cross) };
  }

  #freeState(): void {
    this.#free(this.#state);
    this.#state = this.#start.state;
  }

  #free(state: DecoderState): void {
    this.#freeSelf(state);
    if (state.cross !== this.#start.state.cross) disposeTensors(state.cross);
  }

  #freeSelf({ self }: DecoderState): void {
    if (self !== this.#start.state.self) disposeTensors(self);
  }
}

/** One token of each row. */
function toTensor(tokens: readonly number[]): Tensor {
  return new Tensor("int64", BigInt64Array.from(tokens, BigInt), [tokens.length, 1]);
}
