/**
 * Windows that are decoded together whatever their age: each joins with its encoding and leaves with its end.
 *
 * @module
 */
import type { Sampler } from "../../backend/backend.ts";
import type { SpeechKernels } from "../../backend/speech.ts";
import type { Tensor } from "../../onnx/ort.ts";
import type { CutDecoder } from "../encoder_decoder/cut_decoder.ts";
import type { WhisperAligner } from "./whisper_aligner.ts";
import type { WhisperConfig } from "./whisper_config.ts";
import type { WhisperGraphs } from "./whisper_graphs.ts";
import { detectLanguage } from "./detect_language.ts";
import { type DecodedWindow, WindowAttempts, type WindowJob } from "./whisper_window.ts";

/** What they work with. */
export interface RowDeps {
  readonly graphs: WhisperGraphs;
  readonly decoder: CutDecoder;
  readonly speech: SpeechKernels;
  readonly sampler: Sampler;
  readonly config: WhisperConfig;
  readonly aligner: WhisperAligner;
}

interface Row {
  readonly job: WindowJob;
  readonly attempts: WindowAttempts;
  readonly slot: number;
  /** What the decoder is to be given next. */
  pending: readonly number[];
  /** Tokens that the decoder has. */
  position: number;
  /** Whether it is known if somebody speaks, and in which language. */
  hasListened: boolean;
}

/** See the module. */
export class WindowRows {
  readonly #deps: RowDeps;
  readonly #freeSlots: number[];
  #rows: Row[] = [];

  constructor(deps: RowDeps) {
    this.#deps = deps;
    this.#freeSlots = [...Array(deps.decoder.maxRows).keys()].reverse();
  }

  /** Windows in work. */
  get numRows(): number {
    return this.#rows.length;
  }

  /** How many more there is room for. */
  get numFree(): number {
    return this.#freeSlots.length;
  }

  /** Encodes windows, at most as many as there is room for, and takes them in. */
  async admit(jobs: readonly WindowJob[]): Promise<void> {
    const { graphs, decoder, speech, config } = this.#deps;
    const slots = this.#freeSlots.splice(-jobs.length);
    try {
      const features = speech.features(jobs.map(({ task }) => task.row));
      await decoder.keep(await graphs.encode(features), slots);
    } catch (error) {
      this.#freeSlots.push(...slots);
      throw error;
    }
    const rows = jobs.map((job, i): Row => ({
      job,
      attempts: new WindowAttempts(job.task, config),
      slot: slots[i]!,
      pending: [config.startToken],
      position: 0,
      hasListened: false,
    }));
    this.#rows.push(...rows);
  }

  /** Runs the next tokens of all windows; those that end by it are told so. */
  async step(): Promise<void> {
    this.#leave(this.#rows.filter(({ job }) => job.isDropped()));
    if (this.#rows.length === 0) return;
    const logits = await this.#deps.decoder.step(
      this.#rows.map(({ slot, pending, position }) => ({ slot, tokens: pending, position })),
    );
    for (const row of this.#rows) {
      row.position += row.pending.length;
      row.pending = [];
    }
    const isFirst = this.#rows.map(({ hasListened }) => !hasListened);
    await detectLanguage(
      this.#deps,
      logits,
      this.#rows.map(({ attempts }, i) => isFirst[i] ? attempts : undefined),
    );
    this.#rows.forEach((row, i) => {
      if (isFirst[i]) row.pending = row.attempts.prompt;
      row.hasListened = true;
    });
    await this.#choose(logits);
  }

  /** Lets go of all windows, telling nobody. @returns their jobs. */
  clear(): WindowJob[] {
    const jobs = this.#rows.map(({ job }) => job);
    this.#leave(this.#rows);
    return jobs;
  }

  /** Chooses the next token of the windows whose prompt is over. */
  async #choose(logits: Tensor): Promise<void> {
    const { speech, sampler, config } = this.#deps;
    const choosing = this.#rows.map(({ pending }) => pending.length === 0);
    if (!choosing.includes(true)) return;
    speech.restrict(logits, this.#rows.map(({ attempts }) => attempts.rule));
    const chosen = await sampler.sample(
      logits,
      this.#rows.map(({ attempts }) => attempts.sampling),
    );
    const ended = this.#rows.flatMap((row, i) => {
      const { attempts, job } = row;
      if (!choosing[i] || job.isDropped()) return [];
      const outcome = attempts.push(chosen[i]!);
      if (outcome === "next") row.pending = [attempts.lastToken];
      else if (outcome === "again") {
        row.position = 0;
        row.pending = [config.startToken, ...attempts.prompt];
      } else return [{ row, window: outcome }];
      return [];
    });
    for (const { row, window } of ended) await this.#handOut(row, window);
    this.#leave(ended.map(({ row }) => row));
  }

  /** What goes wrong with a window that has ended is no matter of the others. */
  async #handOut(row: Row, window: DecodedWindow): Promise<void> {
    try {
      row.job.onDone(await this.#timed(row, window));
    } catch (error) {
      row.job.onError(error);
    }
  }

  /** The window with where its tokens are, if that is asked for. */
  async #timed({ job, slot }: Row, window: DecodedWindow): Promise<DecodedWindow> {
    const { timedSeconds: seconds } = job.task;
    if (seconds === undefined || window.tokens.length === 0) return window;
    return { ...window, alignment: await this.#deps.aligner.align({ slot, window, seconds }) };
  }

  #leave(rows: readonly Row[]): void {
    if (rows.length === 0) return;
    this.#freeSlots.push(...rows.map(({ slot }) => slot));
    this.#rows = this.#rows.filter((row) => !rows.includes(row));
  }
}
