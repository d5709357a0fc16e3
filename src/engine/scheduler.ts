/**
 * Decides which tokens of which sequences the next step computes: continuous batching with chunked prefill.
 *
 * @module
 */
import type { DecoderLimits, SampledToken } from "../decoder/decoder.ts";
import { HearthError } from "../base/errors.ts";
import { chooseStep, isDecoding, type PoolDemand, SequenceQueue } from "./sequence_queue.ts";
import { BlockManager, type BlockStats } from "./blocks.ts";
import { type GenerationRequest, Sequence, toLongScope } from "./sequence.ts";
import { LengthLimits } from "./length_limits.ts";
import { StateSlots } from "./idle_blocks.ts";
import type { CommittedToken, ScheduledSequence, ScheduledStep } from "./step.ts";

/** Cache scope of all sequences that share blocks with other requests. */
const SHARED_SCOPE = 0;

/**
 * Number of prompt tokens between two saved states. Other prompts with the same beginning can continue from these
 * states.
 */
const STATE_INTERVAL = 1024;

/** Counts since the start, and current numbers. */
export interface SchedulerStats extends BlockStats {
  readonly numRunning: number;
  readonly numWaiting: number;
  /** Preemptions, in which a running sequence lost its blocks to an older one. */
  readonly numPreemptions: number;
}

/** A sequence that the pool can never hold. */
export interface RefusedSequence {
  readonly sequence: Sequence;
  readonly error: HearthError;
}

export interface SchedulerOptions {
  /** Whether requests share the blocks of equal prefixes. Samples of one request always do. */
  readonly prefixCache: boolean;
}

/**
 * Schedules sequences in order of arrival. A step first takes the next token of every sequence whose prompt has been
 * read, then as many prompt tokens as its budget leaves. If next tokens would have to wait too long, the step becomes a
 * prefill step: it only reads prompts, and is suspended from time to time for a decode step, which only computes next
 * tokens. Only the newest sequence is ever preempted, and it returns to the front of the queue. So the running
 * sequences are always the oldest ones, and none is overtaken.
 *
 * A sequence gets the blocks for its whole prompt when it is admitted, so that a long prompt cannot run out of blocks
 * midway. Blocks for its completion are added one at a time.
 *
 * The order of calls is `schedule`, run the step, `commit`. While a prefill step is suspended, `scheduleBeside` and
 * `commit` run another one. All other methods may be called at any time, even while a step runs.
 */
export class Scheduler {
  readonly #limits: DecoderLimits;
  readonly #prefixCache: boolean;
  readonly #blocks: BlockManager;
  readonly #slots: StateSlots | undefined;
  readonly #sequences = new Map<number, Sequence>();
  readonly #queue: SequenceQueue;
  #nextSequenceId = 1;
  #nextRequestId = 1;
  /** Steps that are not committed: running or suspended ones, and a failed one until the next is scheduled. */
  readonly #uncommitted = new Set<ScheduledStep>();
  /** Sequences that ended while a step with them was suspended. That step will still write to their blocks. */
  readonly #endedInStep: Sequence[] = [];
  readonly #lengths: LengthLimits;

  constructor(limits: DecoderLimits, options: SchedulerOptions) {
    this.#limits = limits;
    this.#prefixCache = options.prefixCache;
    this.#slots = limits.numStateSlots ? new StateSlots(limits.numStateSlots) : undefined;
    this.#blocks = new BlockManager(limits, this.#slots);
    this.#queue = new SequenceQueue(limits, this.#blocks);
    this.#lengths = new LengthLimits(limits);
  }

  /**
   * Maximum number of tokens of prompt and completion in one sequence: the context length, or what the largest pools
   * can hold.
   */
  get maxSequenceLength(): number {
    return this.#lengths.longest;
  }

  /**
   * Queues a request.
   *
   * @returns its sequences, one per sample.
   * @throws {HearthError} `context_length_exceeded` when the prompt (and one token after it, if tokens are to be
   * generated) can never be held; `invalid_value` when the prompt is empty.
   */
  add(request: GenerationRequest): Sequence[] {
    const numPromptTokens = request.promptTokens.length;
    if (numPromptTokens === 0) throw new HearthError("invalid_value", "The prompt has no tokens.");
    const { maxTokens = Infinity } = request;
    if (numPromptTokens > this.#lengths.longestPrompt(maxTokens)) {
      throw this.#lengths.tooLong(numPromptTokens, maxTokens);
    }
    const maxLength = Math.max(
      // With `maxTokens` 0, the one token that is still sampled needs no room in the context.
      numPromptTokens + 1,
      Math.min(numPromptTokens + maxTokens, this.maxSequenceLength),
    );
    const requestId = this.#nextRequestId++;
    // Tokens found in the prefix cache are not computed, so they cannot be scored.
    const isShared = this.#prefixCache && request.promptLogprobs === undefined;
    const cacheScope = isShared ? SHARED_SCOPE : requestId;
    return request.samples.map((params, index) => {
      const id = this.#nextSequenceId++;
      const own = { id, requestId, cacheScope, maxLength, params, rules: request.rules?.(index) };
      // Only one sample scores the prompt that all share.
      const promptLogprobs = index === 0 ? request.promptLogprobs : undefined;
      const sequence = new Sequence({ ...request, ...own, promptLogprobs });
      sequence.isLong = this.#isLong(sequence);
      this.#sequences.set(id, sequence);
      this.#queue.waiting.push(sequence);
      return sequence;
    });
  }

  /** See {@linkcode SequenceQueue.demand}. */
  demand(): PoolDemand[] {
    return this.#queue.demand();
  }

  /**
   * Changes the number of blocks of a pool.
   *
   * @param pool 0 is the main pool, the others are window pools.
   * @returns false if sequences hold blocks that would be removed.
   */
  resize(numBlocks: number, pool = 0): boolean {
    return this.#blocks.resize(numBlocks, pool);
  }

  /**
   * Sets the maximum number of blocks of a pool, which is lower for a while after the device has refused memory. This
   * number limits the length of sequences.
   *
   * @param pool 0 is the main pool, the others are window pools.
   * @returns the sequences that the pool can never hold, each with its error; the caller ends them.
   */
  limitPool(mostBlocks: number, pool = 0): RefusedSequence[] {
    this.#lengths.setPool(pool, mostBlocks);
    const most = this.#lengths.mostComputed;
    const longest = this.maxSequenceLength;
    return [...this.#sequences.values()].flatMap((sequence) => {
      const { numPromptTokens, length, maxLength, status } = sequence;
      // A running sequence may fit because the pool only holds its window.
      if (status === "running" && length > most) return [];
      sequence.maxLength = Math.max(numPromptTokens + 1, Math.min(maxLength, longest));
      if (length <= most) return [];
      return [{ sequence, error: this.#lengths.tooLong(numPromptTokens) }];
    });
  }

  /**
   * Chooses the next step while none is running. Running sequences get the blocks that they need; when there are not
   * enough, the newest is preempted.
   *
   * @param options.mostBeside maximum number of prompt tokens in a step together with next tokens. If more are to be
   * read while other sequences wait for next tokens, the step is a prefill step.
   * @param options.mostPromptTokens maximum number of prompt tokens in a prefill step.
   * @returns `undefined` when there is nothing to do.
   */
  schedule(
    { mostBeside = Infinity, mostPromptTokens = Infinity }: {
      readonly mostBeside?: number | undefined;
      readonly mostPromptTokens?: number | undefined;
    } = {},
  ): ScheduledStep | undefined {
    this.#closeSteps();
    this.#restartLong();
    const hasNext = this.isDecoding;
    const isApart = hasNext && this.#queue.hasUnread(mostBeside);
    const source = {
      ...{ limits: this.#limits, queue: this.#queue, blocks: this.#blocks },
      slots: this.#slots,
    };
    const chosen = isApart && chooseStep(source, { isApart, mostPromptTokens }) ||
      chooseStep(source, { mostPromptTokens: hasNext ? mostBeside : Infinity });
    if (chosen === undefined) return undefined;
    const step = { ...chosen, stateCopies: this.#slots?.takeCopies() };
    this.#uncommitted.add(step);
    return step;
  }

  /**
   * Chooses a decode step to run while a prefill step is suspended. It preempts no sequence.
   *
   * @returns `undefined` when no sequence waits for a next token.
   * @throws {SuspendedStepError} when the suspended step must be given up before others can continue.
   */
  scheduleBeside(suspended: ScheduledStep): ScheduledStep | undefined {
    this.requireSuspended(suspended);
    const decoding = this.#queue.running.filter(isDecoding);
    if (decoding.length === 0) return undefined;
    const scheduled = decoding.map((sequence): ScheduledSequence => {
      if (!this.#blocks.grow(sequence, sequence.length)) throw new SuspendedStepError();
      return { sequence, numTokens: 1, samples: true };
    });
    for (const sequence of decoding) sequence.isComputing = this.#slots !== undefined;
    const numTokens = scheduled.length;
    const stateCopies = this.#slots?.takeCopies();
    const step = { scheduled, numTokens, numNextTokens: numTokens, stateCopies };
    this.#uncommitted.add(step);
    return step;
  }

  /**
   * Checks that a suspended step may continue.
   *
   * @throws {SuspendedStepError} when it must be given up: its sequences have all ended, or a running sequence must be
   * restarted.
   */
  requireSuspended({ scheduled }: ScheduledStep): void {
    const isNeeded = scheduled.some(({ sequence: { status } }) => status === "running");
    const hasFailed = this.#slots !== undefined && this.#uncommitted.size > 1;
    const outgrows = this.#queue.running.some((each) => !each.isLong && this.#isLong(each));
    if (!isNeeded || hasFailed || outgrows) throw new SuspendedStepError();
  }

  /** Whether sequences wait for a next token. */
  get isDecoding(): boolean {
    return this.#queue.isDecoding;
  }

  /**
   * Restarts the sequences with states in steps that were not committed. The steps may have changed these states,
   * which, unlike keys and values, cannot be written again.
   */
  #closeSteps(): void {
    if (this.#uncommitted.size === 0) return;
    for (const { scheduled } of this.#uncommitted) {
      for (const { savedState } of scheduled) {
        if (savedState) this.#slots!.release(savedState.slot);
      }
    }
    this.#uncommitted.clear();
    this.#releaseEnded();
    this.#slots?.abandonCopies();
    const first = this.#queue.running.findIndex(({ isComputing }) => isComputing);
    if (first < 0) return;
    this.#queue.restart(first);
  }

  /** Restarts a sequence that has become long, because its keys so far have the rotation angles of short ones. */
  #restartLong(): void {
    if (this.#limits.longFrom === undefined) return;
    const first = this.#queue.running.findIndex((each) => !each.isLong && this.#isLong(each));
    if (first >= 0) this.#queue.restart(first);
    for (const sequence of this.#queue.waiting) sequence.isLong ||= this.#isLong(sequence);
  }

  #isLong({ length }: Sequence): boolean {
    return length > (this.#limits.longFrom ?? Infinity);
  }

  /** Keeps a sequence's state at the end of its prompt's last full block, and at intervals before that. */
  #saveState({ sequence, numTokens, savedState }: ScheduledSequence): void {
    const { numComputed, numPromptTokens } = sequence;
    if (savedState) {
      const numTokensBefore = numComputed - numTokens + savedState.numTokens;
      this.#blocks.keepState(sequence, numTokensBefore, savedState.slot);
    }
    const isLast = numComputed === this.#blocks.numShareableTokens(numPromptTokens);
    const isPassed = Math.floor(numComputed / STATE_INTERVAL) >
      Math.floor((numComputed - numTokens) / STATE_INTERVAL);
    if (isLast || isPassed) this.#blocks.saveState(sequence);
  }

  /**
   * Records that a step has run, possibly after a suspension. Sequences that ended while it ran are skipped.
   *
   * @param sampled the scored and new tokens, in the order of the scheduled sequences.
   * @returns the same tokens with their sequences. The caller ends finished ones with {@linkcode end}.
   */
  commit<Token extends SampledToken>(
    step: ScheduledStep,
    sampled: readonly Token[],
  ): CommittedToken<Token>[] {
    this.#uncommitted.delete(step);
    if (step.isApart) this.#releaseEnded();
    const committed: CommittedToken<Token>[] = [];
    let numSampled = 0;
    for (const scheduled of step.scheduled) {
      const { sequence, numTokens, samples, scored = [], savedState } = scheduled;
      const numRows = scored.length + (samples ? 1 : 0);
      const tokens = sampled.slice(numSampled, numSampled += numRows);
      if (tokens.length < numRows) {
        throw new RangeError(`The step sampled only ${sampled.length} tokens.`);
      }
      if (sequence.status !== "running") {
        if (savedState) this.#slots!.release(savedState.slot);
        continue;
      }
      sequence.numComputed += numTokens;
      sequence.isComputing = false;
      this.#blocks.commit(sequence);
      if (this.#slots) this.#saveState(scheduled);
      tokens.forEach((each, row) => {
        const isScored = row < scored.length;
        const token = isScored ? sequence.scoring!.take(each) : each;
        if (!isScored) sequence.push(token.tokenId);
        committed.push({ sequence, token, ...(isScored && { isScored }) });
      });
    }
    return committed;
  }

  /**
   * Ends a sequence in any state, finished or cancelled. Its blocks become free at once and stay findable. If the
   * sequence is part of a suspended step, the blocks become free after that step. A sequence that has already ended, or
   * never existed, is ignored.
   */
  end(sequenceId: number): void {
    const sequence = this.#sequences.get(sequenceId);
    if (sequence === undefined) return;
    this.#sequences.delete(sequenceId);
    this.#queue.remove(sequence);
    sequence.status = "ended";
    const isInStep = this.#uncommitted.values().some(({ isApart, scheduled }) =>
      isApart && scheduled.some((each) => each.sequence === sequence)
    );
    if (isInStep) this.#endedInStep.push(sequence);
    else this.#releaseLast(sequence);
  }

  #releaseEnded(): void {
    while (this.#endedInStep.length > 0) this.#releaseLast(this.#endedInStep.shift()!);
  }

  /** Takes the blocks from a sequence that has ended. */
  #releaseLast(sequence: Sequence): void {
    this.#blocks.release(sequence);
    const { scope } = sequence;
    const isShared = scope === SHARED_SCOPE;
    if (!isShared && !this.#hasSequences(sequence.requestId)) {
      this.#blocks.forget(scope);
      if (this.#limits.longFrom !== undefined) this.#blocks.forget(toLongScope(scope));
    }
  }

  stats(): SchedulerStats {
    return {
      ...this.#blocks.stats(),
      numRunning: this.#queue.running.length,
      numWaiting: this.#queue.waiting.length,
      numPreemptions: this.#queue.numPreemptions,
    };
  }

  /** Whether sequences of a request hold blocks, or may still do so. */
  #hasSequences(requestId: number): boolean {
    const isOfRequest = (sequence: Sequence) => sequence.requestId === requestId;
    return this.#sequences.values().some(isOfRequest) || this.#endedInStep.some(isOfRequest);
  }
}

/** Thrown when a suspended prefill step must be given up. Its sequences have not failed. */
export class SuspendedStepError extends Error {}
