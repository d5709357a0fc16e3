/**
 * Which tokens of which sequences the next step computes: continuous batching with chunked prefill.
 *
 * @module
 */
import type { DecoderLimits, SampledToken } from "../decoder/decoder.ts";
import { HearthError } from "../base/errors.ts";
import { chooseStep } from "./choose_step.ts";
import { BlockManager, type BlockStats } from "./blocks.ts";
import type { GenerationRequest } from "./generation_request.ts";
import { LengthLimits } from "./length_limits.ts";
import type { PoolDemand } from "./pool_size.ts";
import { longScope, Sequence } from "./sequence.ts";
import { isDecoding, SequenceQueue } from "./sequence_queue.ts";
import { StateSlots } from "./state_slots.ts";
import type { CommittedToken, ScheduledSequence, ScheduledStep } from "./step.ts";

/** The cache scope of all sequences while the prefix cache is on. */
const SHARED_SCOPE = 0;

/** Tokens of a prompt after which a state is kept, where many prompts may begin alike. */
const STATE_INTERVAL = 1024;

/** Counts since the start, and states now. */
export interface SchedulerStats extends BlockStats {
  readonly numRunning: number;
  readonly numWaiting: number;
  /** Preemptions: a running sequence gave its blocks to an older one. */
  readonly numPreemptions: number;
}

/** A sequence that the pool can never hold. */
export interface RefusedSequence {
  readonly sequence: Sequence;
  readonly error: HearthError;
}

/** See {@linkcode Scheduler}. */
export interface SchedulerOptions {
  /** Whether requests share the blocks of equal prefixes. Samples of one request always share them. */
  readonly prefixCache: boolean;
}

/**
 * Sequences run in order of arrival. A step first takes the next token of every sequence that has its prompt
 * behind it, then as much of the prompts as its token budget leaves. Where that would keep next tokens waiting, it reads
 * prompts alone, and is suspended now and then for a step of next tokens. Only the newest sequence is ever preempted,
 * and it goes back to the front of the queue: so the running sequences are always the oldest ones, and nobody is
 * overtaken.
 *
 * A sequence gets the blocks of all its tokens when it is admitted, so that a long prompt cannot run out of blocks
 * half-way, and blocks for its completion one at a time.
 *
 * The order of calls is `schedule`, run the step, `commit`; while a step of prompts is suspended, `scheduleBeside` and
 * `commit` for another. Everything else may be called at any moment, also while a step runs.
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
  /** Steps that were not committed: those that run or are suspended, and one that failed if another is scheduled. */
  readonly #uncommitted = new Set<ScheduledStep>();
  /** Sequences that have ended while a step of theirs was suspended, which goes on to write to their blocks. */
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

  /** Most tokens of prompt and completion in one sequence: the context, or what the largest pools hold. */
  get maxSequenceLength(): number {
    return this.#lengths.longest;
  }

  /**
   * Queues a request.
   *
   * @returns its sequences, one per sample.
   * @throws {HearthError} `context_length_exceeded` when the prompt can never be held, with one token after it unless
   * none is wanted; `invalid_value` when it is empty.
   */
  add(request: GenerationRequest): Sequence[] {
    const numPromptTokens = request.promptTokens.length;
    if (numPromptTokens === 0) throw new HearthError("invalid_value", "The prompt has no tokens.");
    const { maxTokens = Infinity } = request;
    if (numPromptTokens > this.#lengths.longestPrompt(maxTokens)) {
      throw this.#lengths.tooLong(numPromptTokens, maxTokens);
    }
    const maxLength = Math.max(
      // A token that is not wanted takes no room of the context.
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
      // One sample scores the prompt that all share.
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
   * @param pool 0 is the main one, the others are those of windows.
   * @returns false when sequences hold blocks that would go.
   */
  resize(numBlocks: number, pool = 0): boolean {
    return this.#blocks.resize(numBlocks, pool);
  }

  /**
   * Sets how many blocks a pool can be given, after the device refused more. Sequences end where that ends.
   *
   * @param pool 0 is the main one, the others are those of windows.
   * @returns those that it can never hold, which the caller ends, each with its error.
   */
  limitPool(mostBlocks: number, pool = 0): RefusedSequence[] {
    this.#lengths.setPool(pool, mostBlocks);
    const most = this.#lengths.mostComputed;
    const longest = this.maxSequenceLength;
    return [...this.#sequences.values()].flatMap((sequence) => {
      const { numPromptTokens, length, maxLength, status } = sequence;
      // One that runs may have its window where not all of it would fit.
      if (status === "running" && length > most) return [];
      sequence.maxLength = Math.max(numPromptTokens + 1, Math.min(maxLength, longest));
      if (length <= most) return [];
      return [{ sequence, error: this.#lengths.tooLong(numPromptTokens) }];
    });
  }

  /**
   * Chooses the next step, when none runs. Running sequences get the blocks they need; the newest is preempted when they
   * run out.
   *
   * @param options.mostBeside most tokens of prompts in a step with next tokens: where more are to be read while others
   * wait for their next tokens, the step is of prompts alone and will be suspended for them.
   * @param options.mostPromptTokens most tokens of prompts in such a step.
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
    const source = { limits: this.#limits, queue: this.#queue, blocks: this.#blocks };
    const chosen = isApart && chooseStep(source, { isApart, mostPromptTokens }) ||
      chooseStep(source, { mostPromptTokens: hasNext ? mostBeside : Infinity });
    if (chosen === undefined) return undefined;
    const step = { ...chosen, stateCopies: this.#slots?.takeCopies() };
    this.#uncommitted.add(step);
    return step;
  }

  /**
   * Chooses a step of next tokens to run while a step of prompts is suspended. It preempts nobody.
   *
   * @returns `undefined` when nobody waits for a next token.
   * @throws {SuspendedStepError} when the suspended step has to be given up before others go on.
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

  /** @throws {SuspendedStepError} when a suspended step has to be given up: nobody needs it, or others must begin anew. */
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
   * Sequences with states begin anew if a step that took them was not committed: it may have changed their states, which
   * unlike keys and values cannot be written again.
   */
  #closeSteps(): void {
    if (this.#uncommitted.size === 0) return;
    this.#uncommitted.clear();
    this.#releaseEnded();
    this.#slots?.abandonCopies();
    const first = this.#queue.running.findIndex(({ isComputing }) => isComputing);
    if (first < 0) return;
    this.#queue.restart(first);
  }

  /** A sequence that has become long begins anew: its keys so far have the angles of a short one. */
  #restartLong(): void {
    if (this.#limits.longFrom === undefined) return;
    const first = this.#queue.running.findIndex((each) => !each.isLong && this.#isLong(each));
    if (first >= 0) this.#queue.restart(first);
    for (const sequence of this.#queue.waiting) sequence.isLong ||= this.#isLong(sequence);
  }

  #isLong({ length }: Sequence): boolean {
    return length > (this.#limits.longFrom ?? Infinity);
  }

  /** Keeps a sequence's state at the end of its prompt's last block, and now and then on the way there. */
  #saveState(sequence: Sequence, numTokens: number): void {
    const { numComputed, numPromptTokens } = sequence;
    const isLast = numComputed === this.#blocks.numShareableTokens(numPromptTokens);
    const isPassed = Math.floor(numComputed / STATE_INTERVAL) >
      Math.floor((numComputed - numTokens) / STATE_INTERVAL);
    if (isLast || isPassed) this.#blocks.saveState(sequence);
  }

  /**
   * Records that a step has run, and that a suspended one is over. Sequences that ended while it ran are skipped.
   *
   * @param sampled the scored and new tokens, in the order of the scheduled sequences.
   * @returns the same with their sequences. The caller ends finished ones with {@linkcode end}.
   */
  commit<Token extends SampledToken>(
    step: ScheduledStep,
    sampled: readonly Token[],
  ): CommittedToken<Token>[] {
    this.#uncommitted.delete(step);
    if (step.isApart) this.#releaseEnded();
    const committed: CommittedToken<Token>[] = [];
    let numSampled = 0;
    for (const { sequence, numTokens, samples, scored = [] } of step.scheduled) {
      const numRows = scored.length + (samples ? 1 : 0);
      const tokens = sampled.slice(numSampled, numSampled += numRows);
      if (tokens.length < numRows) {
        throw new RangeError(`The step sampled only ${sampled.length} tokens.`);
      }
      if (sequence.status !== "running") continue;
      sequence.numComputed += numTokens;
      sequence.isComputing = false;
      this.#blocks.commit(sequence);
      if (this.#slots) this.#saveState(sequence, numTokens);
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
   * Ends a sequence in any state, finished or cancelled: its blocks are free, and findable, at once, or after the step
   * of prompts that it has a part in. One that has ended already, or never was, is no error.
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
      if (this.#limits.longFrom !== undefined) this.#blocks.forget(longScope(scope));
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

  /** Whether sequences of a request hold blocks, or may yet. */
  #hasSequences(requestId: number): boolean {
    const isOfRequest = (sequence: Sequence) => sequence.requestId === requestId;
    return this.#sequences.values().some(isOfRequest) || this.#endedInStep.some(isOfRequest);
  }
}

/** A step of prompts that is suspended has to be given up; it is no failure of its sequences. */
export class SuspendedStepError extends Error {}
