/**
 * The engine's loop: schedules a step, runs it and delivers its tokens, until nothing is left to do.
 *
 * @module
 */
import { NothingToSampleError } from "../../kernels/sample/sample_row.ts";
import {
  type Decoder,
  type DecoderLimits,
  EncoderError,
  type SampledToken,
  type Suspension,
} from "../decoder/decoder.ts";
import { log } from "../base/log.ts";
import { BusyThread } from "../base/timing.ts";
import { runStep } from "../base/threads.ts";
import { EngineMetrics } from "./metrics.ts";
import type { GenerationRequest, Sequence } from "./sequence.ts";
import { mostBlocks } from "./length_limits.ts";
import { Scheduler, type SchedulerOptions, SuspendedStepError } from "./scheduler.ts";
import { KvPool } from "./kv_pool.ts";
import { PrefillPace } from "./prefill_pace.ts";
import {
  type CommittedToken,
  type ScheduledSequence,
  type ScheduledStep,
  StepBuilder,
} from "./step.ts";

/** The parts of a request's time, in milliseconds. */
export interface GenerationTimes {
  /** Time from the request's arrival to its first step. */
  readonly queueMs: number;
  /** Time from the request's first step to its first token. */
  readonly prefillMs: number;
  /** Time from the request's first token to its end. */
  readonly decodeMs: number;
}

/** The reason why a sample ends. */
export type EndReason = "length" | "stop";

/**
 * Receives the tokens of one request. It is called between steps, and never after the request was cancelled. If it
 * throws, only its own request ends, with that error.
 */
interface TokenListener<Token extends SampledToken = SampledToken> {
  /**
   * Called when the request's first step begins. Must not throw.
   *
   * @param numCachedTokens prompt tokens found in the prefix cache.
   */
  onScheduled?(numCachedTokens: number): void;
  /**
   * Called for each token of a sample.
   *
   * @param end why the sample cannot continue: it has its maximum length, or its grammar is complete.
   * @returns whether the sample ends with this token; ignored if `end` is given.
   */
  onToken(sampleIndex: number, token: Token, end: EndReason | undefined): boolean;
  /** If the prompt is scored, called for each of its tokens after the first, before any sample gets a token. */
  onScored?(token: Token): void;
  /**
   * Called when all samples have ended.
   *
   * @param numCachedTokens prompt tokens found in the prefix cache.
   * @param times where the request's time went.
   */
  onDone(numCachedTokens: number, times: GenerationTimes): void;
  /** Called when a step has failed, which ends the request. */
  onError(error: unknown): void;
}

interface Running<Token extends SampledToken> {
  readonly listener: TokenListener<Token>;
  readonly sequences: readonly Sequence[];
  numUnfinished: number;
  readonly arrivedAtMs: number;
  scheduledAtMs: number | undefined;
  firstTokenAtMs?: number;
  /** Time of each sample's last token, in milliseconds of `performance.now()`. */
  readonly lastTokenAtMs: number[];
}

/** Runs many requests on a decoder at the same time. */
export class EngineLoop<Token extends SampledToken = SampledToken> {
  readonly metrics: EngineMetrics;
  readonly #decoder: Decoder<Token>;
  readonly #scheduler: Scheduler;
  readonly #builder: StepBuilder;
  /** Builds steps that run while another step is suspended. */
  readonly #builderBeside: StepBuilder;
  readonly #pool: KvPool;
  readonly #pace: PrefillPace;
  /** Running requests by sequence id. */
  readonly #running = new Map<number, Running<Token>>();
  /** The running loop; settles when there is nothing left to do. */
  #idle: Promise<void> | undefined;

  constructor(decoder: Decoder<Token>, options: SchedulerOptions) {
    this.#decoder = decoder;
    this.#scheduler = new Scheduler(decoder.limits, options);
    this.#builder = new StepBuilder(decoder.limits);
    const { maxSequences, maxBatchTokens } = decoder.limits;
    this.#builderBeside = new StepBuilder({
      ...decoder.limits,
      maxBatchTokens: Math.min(maxSequences, maxBatchTokens),
    });
    this.#pool = new KvPool({ decoder, scheduler: this.#scheduler });
    this.#pace = new PrefillPace(decoder.suspension);
    this.metrics = new EngineMetrics(() => this.#scheduler.stats(), mostBlocks(decoder.limits));
  }

  get limits(): DecoderLimits {
    return this.#decoder.limits;
  }

  /** Maximum number of tokens of prompt and completion in one sequence. */
  get maxSequenceLength(): number {
    return this.#scheduler.maxSequenceLength;
  }

  /**
   * Queues a request.
   *
   * @returns a function that ends the request: the listener is not called again, and the blocks become free.
   * @throws {HearthError} when the prompt is empty, or too long to ever run.
   */
  add(request: GenerationRequest, listener: TokenListener<Token>): () => void {
    this.#pool.updateLimit();
    const sequences = this.#scheduler.add(request);
    const running: Running<Token> = {
      listener,
      sequences,
      numUnfinished: sequences.length,
      arrivedAtMs: performance.now(),
      scheduledAtMs: undefined,
      lastTokenAtMs: [],
    };
    for (const { id } of sequences) this.#running.set(id, running);
    this.metrics.promptTokens.inc(request.promptTokens.length);
    this.#idle ??= this.#runSteps();
    return () => this.#drop(running);
  }

  /**
   * Ends every request without calling its listener, and waits for the running step, after which the decoder is idle.
   */
  async close(): Promise<void> {
    for (const running of new Set(this.#running.values())) this.#drop(running);
    await this.#idle;
    this.#pool.stop();
  }

  async #runSteps(): Promise<void> {
    // Yields first, so that requests that arrive together share the first step.
    const thread = new BusyThread();
    await thread.yield();
    while (true) {
      await this.#fitPool();
      const step = this.#scheduler.schedule({
        mostBeside: this.#decoder.suspension?.mostBeside,
        mostPromptTokens: this.#pace.mostPromptTokens,
      });
      if (step === undefined) break;
      await (step.isApart ? this.#runApart(step, thread) : this.#runStep(step, this.#builder));
      // Cancellations and new requests arrive between steps.
      await thread.yield();
    }
    this.#idle = undefined;
    this.#pool.shrinkLater((shrink) => this.#idle ??= this.#exclusively(shrink));
  }

  /** Runs a function that must not overlap with a step. Requests that arrive in the meantime run afterwards. */
  async #exclusively(run: () => Promise<void>): Promise<void> {
    await run();
    this.#idle = this.#running.size > 0 ? this.#runSteps() : undefined;
  }

  async #fitPool(): Promise<void> {
    for (const { sequence, error } of await this.#pool.fit()) {
      const running = this.#running.get(sequence.id);
      if (running !== undefined) this.#failRequest(running, error);
    }
  }

  /** Runs a step. While it is suspended, other steps run. */
  async #runStep(
    step: ScheduledStep,
    builder: StepBuilder,
    { suspension, msBeside = () => 0 }: {
      readonly suspension?: Suspension;
      readonly msBeside?: () => number;
    } = {},
  ): Promise<void> {
    const startedAtMs = performance.now();
    this.#noteScheduled(step, startedAtMs);
    try {
      const input = builder.build(step);
      const sampled = await runStep(() => this.#decoder.run(input, suspension));
      const committed = this.#scheduler.commit(step, sampled);
      const nowMs = performance.now();
      const ms = nowMs - startedAtMs - msBeside();
      if (step.numNextTokens === step.numTokens) this.#pace.observe(ms, nowMs);
      this.metrics.observeStep(step, ms);
      this.#pool.observe();
      for (const token of committed) this.#deliver(token);
    } catch (error) {
      // A suspended step that was given up is scheduled again.
      if (!(error instanceof SuspendedStepError)) this.#fail(step, error);
    }
  }

  /** Runs a prefill step. It is suspended whenever a decode step of other sequences is due. */
  async #runApart(step: ScheduledStep, thread: BusyThread): Promise<void> {
    let msBeside = 0;
    const runBeside = async () => {
      const startedAtMs = performance.now();
      // A step right after another shows how long steps take undisturbed.
      for (let left = this.#pace.isStale ? 2 : 1; left > 0; left--) {
        await this.#fitPool();
        const beside = this.#scheduler.scheduleBeside(step);
        if (beside === undefined) break;
        await this.#runStep(beside, this.#builderBeside);
        // Cancellations and new requests arrive here.
        await thread.yield();
      }
      this.#scheduler.requireSuspended(step);
      msBeside += performance.now() - startedAtMs;
    };
    const getRemainingMs = () =>
      this.#scheduler.isDecoding ? this.#pace.remainingMs(performance.now()) : Infinity;
    await this.#runStep(step, this.#builder, {
      suspension: {
        get remainingMs() {
          return getRemainingMs();
        },
        endPart: (nextMs = 0) => {
          this.#pace.addPart();
          // Suspending half a part too early is as good as half a part too late.
          return getRemainingMs() <= nextMs / 2 ? runBeside() : undefined;
        },
      },
      msBeside: () => msBeside,
    });
    this.#pace.endPrompts(step.numTokens);
  }

  #noteScheduled(step: ScheduledStep, nowMs: number): void {
    for (const { sequence } of step.scheduled) {
      const running = this.#running.get(sequence.id);
      if (running === undefined || running.scheduledAtMs !== undefined) continue;
      running.scheduledAtMs = nowMs;
      this.metrics.queueSeconds.observe((nowMs - running.arrivedAtMs) / 1000);
      running.listener.onScheduled?.(running.sequences[0]?.numCachedTokens ?? 0);
    }
  }

  #deliver({ sequence, token, isScored }: CommittedToken<Token>): void {
    const running = this.#running.get(sequence.id);
    if (running === undefined) return;
    const index = running.sequences.indexOf(sequence);
    if (!isScored) this.#noteToken(running, index);
    try {
      if (isScored) return running.listener.onScored?.(token);
      const end = sequence.sampling.isFinished ? "stop" : sequence.isFull ? "length" : undefined;
      const ends = running.listener.onToken(index, token, end);
      if (!ends && end === undefined) return;
      this.#scheduler.end(sequence.id);
      this.#running.delete(sequence.id);
      if (--running.numUnfinished > 0) return;
      running.listener.onDone(running.sequences[0]?.numCachedTokens ?? 0, measureTimes(running));
    } catch (error) {
      this.#failRequest(running, error);
    }
  }

  #noteToken(running: Running<Token>, index: number): void {
    const nowMs = performance.now();
    const lastMs = running.lastTokenAtMs[index];
    if (lastMs !== undefined) this.metrics.interTokenSeconds.observe((nowMs - lastMs) / 1000);
    else this.metrics.firstTokenSeconds.observe((nowMs - running.arrivedAtMs) / 1000);
    running.firstTokenAtMs ??= nowMs;
    running.lastTokenAtMs[index] = nowMs;
    this.metrics.completionTokens.inc();
  }

  #drop(running: Running<Token>): void {
    for (const { id } of running.sequences) {
      this.#scheduler.end(id);
      this.#running.delete(id);
    }
  }

  /**
   * Ends the requests for which a step failed: those whose logits allow no token, or whose media cannot be encoded.
   * After any other failure, ends all requests in the step. The step is not committed, so the tokens of the other
   * requests are computed again.
   */
  #fail(step: ScheduledStep, error: unknown): void {
    const reason = error instanceof EncoderError ? error.cause : error;
    for (const { sequence } of findFailed(step, error)) {
      const running = this.#running.get(sequence.id);
      if (running !== undefined) this.#failRequest(running, sequence.sampling.failure ?? reason);
    }
  }

  #failRequest(running: Running<Token>, reason: unknown): void {
    this.#drop(running);
    try {
      running.listener.onError(reason);
    } catch (error) {
      log.error("a request's error could not be sent", { error, reason });
    }
  }
}

/** Measures the parts of a finished request's time. */
function measureTimes(running: Running<SampledToken>): GenerationTimes {
  const { arrivedAtMs, scheduledAtMs = arrivedAtMs, firstTokenAtMs = scheduledAtMs } = running;
  return {
    queueMs: scheduledAtMs - arrivedAtMs,
    prefillMs: firstTokenAtMs - scheduledAtMs,
    decodeMs: performance.now() - firstTokenAtMs,
  };
}

/** Finds the sequences for which a step failed. */
function findFailed({ scheduled }: ScheduledStep, error: unknown): readonly ScheduledSequence[] {
  if (error instanceof EncoderError) {
    return scheduled.filter(({ sequence }) => error.sequenceIds.includes(sequence.id));
  }
  if (!(error instanceof NothingToSampleError)) return scheduled;
  const asking = scheduled.flatMap((each) => {
    const rows = (each.scored ?? []).map(() => each);
    return each.samples ? [...rows, each] : rows;
  });
  return error.rows.flatMap((row) => asking[row] ?? []);
}
