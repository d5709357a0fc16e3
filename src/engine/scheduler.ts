/**
 * Which tokens of which sequences the next step computes: continuous batching with chunked prefill.
 *
 * @module
 */
import type { DecoderLimits, SampledToken } from "../decoder/decoder.ts";
import { mostWindowBlocks } from "../decoder/cache_pools.ts";
import { HearthError } from "../base/errors.ts";
import { BlockManager, type BlockStats } from "./blocks.ts";
import type { GenerationRequest } from "./generation_request.ts";
import { contextExceeded } from "./length_limit.ts";
import { mostBlocks, type PoolDemand } from "./pool_size.ts";
import { longScope, Sequence } from "./sequence.ts";
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
  /** Running sequences in order of arrival, all older than those waiting. */
  readonly #running: Sequence[] = [];
  /** Waiting sequences in order of arrival. */
  readonly #waiting: Sequence[] = [];
  #nextSequenceId = 1;
  #nextRequestId = 1;
  #numPreemptions = 0;
  /** Steps that were not committed: those that run or are suspended, and one that failed if another is scheduled. */
  readonly #uncommitted = new Set<ScheduledStep>();
  /** Sequences that have ended while a step of theirs was suspended, which goes on to write to their blocks. */
  readonly #endedInStep: Sequence[] = [];
  /** Blocks that each pool can be given: the main one, then those of windows. */
  readonly #mostBlocks: number[];

  constructor(limits: DecoderLimits, options: SchedulerOptions) {
    this.#limits = limits;
    this.#prefixCache = options.prefixCache;
    this.#slots = limits.numStateSlots ? new StateSlots(limits.numStateSlots) : undefined;
    this.#blocks = new BlockManager(limits, this.#slots);
    this.#mostBlocks = [limits, ...limits.windows ?? []].map(mostBlocks);
  }

  /** Most tokens of prompt and completion in one sequence: the context, or what the largest pools hold. */
  get maxSequenceLength(): number {
    // The last token of a completion is never computed, so it needs no slot.
    return Math.min(this.#limits.contextLength, this.#mostComputed() + 1);
  }

  /** Most tokens of a sequence that the pools hold. One that holds a window and a token more holds any sequence. */
  #mostComputed(): number {
    const { blockSize, windows = [] } = this.#limits;
    const [main, ...ofWindows] = this.#mostBlocks as [number, ...number[]];
    const short = ofWindows.filter((most, i) =>
      most < mostWindowBlocks({ blockSize, window: windows[i]!.window, maxBatchTokens: 1 })
    );
    return Math.min(main, ...short) * blockSize;
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
    if (numPromptTokens > this.#longestPrompt(maxTokens)) {
      throw this.#tooLong(numPromptTokens, maxTokens);
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
      this.#waiting.push(sequence);
      return sequence;
    });
  }

  /**
   * What the next step needs of each pool to preempt nobody, and to admit the sequence that waits longest: of the main
   * pool, then of those of windows. It looks one token ahead, so that a pool that cannot grow is known before a sequence
   * has filled it.
   */
  demand(): PoolDemand[] {
    const { blockSize, maxSequences } = this.#limits;
    const numAhead = ({ length, maxLength }: Sequence) => Math.min(length + 1, maxLength - 1);
    const stats = this.#blocks.stats();
    const pools = [stats, ...stats.windows];
    const numTaken = pools.map(() => 0);
    for (const sequence of this.#running) {
      const missing = this.#blocks.countMissing(sequence, numAhead(sequence));
      missing.forEach((numMissing, pool) => numTaken[pool]! += numMissing);
    }
    const [next] = this.#waiting;
    let needs: ReturnType<BlockManager["countNeeds"]> = [];
    if (next !== undefined && this.#running.length < maxSequences && !this.#awaitsSibling(next)) {
      needs = this.#blocks.countNeeds(next);
      needs.forEach(({ numBlocks }, pool) => numTaken[pool]! += numBlocks);
      const numNow = Math.ceil(next.length / blockSize);
      numTaken[0]! += Math.max(0, Math.ceil(numAhead(next) / blockSize) - numNow);
    }
    return pools.map(({ numFreeBlocks, numCachedBlocks }, pool) => {
      const numSpare = needs.length > 0 ? this.#running.length : 0;
      const numFound = needs[pool]?.numFound ?? 0;
      return {
        numMissing: numTaken[pool]! + numSpare - numFreeBlocks - numCachedBlocks,
        numEvicted: numTaken[pool]! - numFound - numFreeBlocks,
      };
    });
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
    this.#mostBlocks[pool] = mostBlocks;
    const most = this.#mostComputed();
    const longest = this.maxSequenceLength;
    return [...this.#sequences.values()].flatMap((sequence) => {
      const { numPromptTokens, length, maxLength, status } = sequence;
      // One that runs may have its window where not all of it would fit.
      if (status === "running" && length > most) return [];
      sequence.maxLength = Math.max(numPromptTokens + 1, Math.min(maxLength, longest));
      if (length <= most) return [];
      return [{ sequence, error: this.#tooLong(numPromptTokens) }];
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
    const isApart = hasNext && this.#hasUnread(mostBeside);
    const step = isApart && this.#choose({ isApart, mostPromptTokens }) ||
      this.#choose({ mostPromptTokens: hasNext ? mostBeside : Infinity });
    if (step !== undefined) this.#uncommitted.add(step);
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
    const decoding = this.#running.filter(isDecoding);
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
    const outgrows = this.#running.some((each) => !each.isLong && this.#isLong(each));
    if (!isNeeded || hasFailed || outgrows) throw new SuspendedStepError();
  }

  /** Whether sequences wait for a next token. */
  get isDecoding(): boolean {
    return this.#running.some(isDecoding);
  }

  /** Whether more than so many tokens of prompts are to be read. */
  #hasUnread(mostBeside: number): boolean {
    if (mostBeside === Infinity) return false;
    let numUnread = 0;
    for (const sequence of [...this.#running, ...this.#waiting]) {
      if (!isDecoding(sequence)) numUnread += sequence.length - sequence.numComputed;
      if (numUnread > mostBeside) return true;
    }
    return false;
  }

  /**
   * Chooses a step of next tokens and prompts.
   *
   * @param options.isApart whether it is of prompts alone. Next tokens get the blocks that they need first, and count as
   * if they had a part in it: no more sequences run than one step holds.
   */
  #choose(
    { isApart = false, mostPromptTokens }: {
      readonly isApart?: boolean;
      readonly mostPromptTokens: number;
    },
  ): ScheduledStep | undefined {
    const scheduled: ScheduledSequence[] = [];
    let promptBudget = mostPromptTokens;
    let numNextTokens = 0;
    let budget = this.#limits.maxBatchTokens;
    let rows = this.#limits.maxSequences;
    /** One token is reserved for each later sequence; prompts are scored with rows of logits left over. */
    const chooseChunk = (sequence: Sequence, numBehind: number) => {
      const { numComputed, length, scoring } = sequence;
      // The first of a step advances whatever comes behind it.
      const mostOfPrompt = Math.max(promptBudget, scheduled.length === 0 ? 1 : 0);
      const spareRows = Math.max(1, rows - numBehind - this.#waiting.length);
      const most = scoring?.maxTokens(numComputed, spareRows) ?? Infinity;
      const limits = [length - numComputed, budget - numBehind, most];
      if (!isDecoding(sequence)) {
        const inWindows = this.#blocks.countWindowTokens(sequence) - numComputed;
        limits.push(mostOfPrompt, Math.max(1, inWindows));
      }
      const numTokens = Math.min(...limits);
      return this.#endWithBlock(sequence, numTokens);
    };
    const take = (sequence: Sequence, numTokens: number) => {
      const { numComputed, length, scoring } = sequence;
      const end = numComputed + numTokens;
      const scored = scoring?.rows(numComputed, end);
      const samples = end === length;
      scheduled.push({ sequence, numTokens, samples, scored });
      sequence.isComputing = this.#slots !== undefined;
      budget -= numTokens;
      if (isDecoding(sequence)) numNextTokens++;
      else promptBudget -= numTokens;
      rows -= Math.max(1, (scored?.length ?? 0) + (samples ? 1 : 0));
    };
    /** Lets a sequence have its next token beside the step. */
    const leave = (sequence: Sequence) => {
      this.#makeRoom(sequence, 1);
      budget--;
      rows--;
    };

    for (let i = 0; i < this.#running.length && budget > 0; i++) {
      const sequence = this.#running[i]!;
      if (isApart && isDecoding(sequence)) {
        leave(sequence);
        continue;
      }
      const numTokens = chooseChunk(sequence, this.#running.length - i - 1);
      if (numTokens === 0) continue;
      if (this.#makeRoom(sequence, numTokens)) take(sequence, numTokens);
    }
    while (budget > 0 && rows > 0 && promptBudget > 0) {
      const sequence = this.#admitNext();
      if (sequence === undefined) break;
      if (isApart && isDecoding(sequence)) {
        leave(sequence);
        continue;
      }
      const numTokens = chooseChunk(sequence, 0);
      if (!this.#makeRoom(sequence, numTokens)) break;
      take(sequence, numTokens);
    }
    if (scheduled.length === 0) return undefined;
    return {
      scheduled,
      numTokens: scheduled.reduce((sum, { numTokens }) => sum + numTokens, 0),
      numNextTokens,
      ...isApart && { isApart },
      stateCopies: this.#slots?.takeCopies(),
    };
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
    const first = this.#running.findIndex(({ isComputing }) => isComputing);
    if (first < 0) return;
    this.#restart(first);
  }

  /** A sequence that has become long begins anew: its keys so far have the angles of a short one. */
  #restartLong(): void {
    if (this.#limits.longFrom === undefined) return;
    const first = this.#running.findIndex((each) => !each.isLong && this.#isLong(each));
    if (first >= 0) this.#restart(first);
    for (const sequence of this.#waiting) sequence.isLong ||= this.#isLong(sequence);
  }

  #isLong({ length }: Sequence): boolean {
    return length > (this.#limits.longFrom ?? Infinity);
  }

  /** Has running sequences wait, with all that are younger: none runs while an older one waits. */
  #restart(first: number): void {
    for (const sequence of this.#running.splice(first).reverse()) {
      this.#blocks.release(sequence);
      sequence.status = "waiting";
      this.#waiting.unshift(sequence);
    }
  }

  /** How many of a sequence's next tokens to compute where a state is worth keeping at the end of a block. */
  #endWithBlock({ numComputed, numPromptTokens, length }: Sequence, numTokens: number): number {
    if (this.#slots === undefined) return numTokens;
    const end = numComputed + numTokens;
    const lastOfPrompt = this.#blocks.numShareableTokens(numPromptTokens);
    if (numComputed < lastOfPrompt && end >= lastOfPrompt) return lastOfPrompt - numComputed;
    // A prompt's chunks end with blocks as well, unless they are too short for that.
    const { blockSize } = this.#limits;
    const wholeBlocks = Math.floor(end / blockSize) * blockSize - numComputed;
    return end < length && wholeBlocks > 0 ? wholeBlocks : numTokens;
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
    const queue = sequence.status === "running" ? this.#running : this.#waiting;
    queue.splice(queue.indexOf(sequence), 1);
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
      numRunning: this.#running.length,
      numWaiting: this.#waiting.length,
      numPreemptions: this.#numPreemptions,
    };
  }

  #longestPrompt(maxTokens: number): number {
    if (maxTokens > 0) return this.maxSequenceLength - 1;
    return Math.min(this.#limits.contextLength, this.#mostComputed());
  }

  #tooLong(numPromptTokens: number, maxTokens = Infinity): HearthError {
    const wantsAnswer = maxTokens > 0;
    const most = wantsAnswer ? this.maxSequenceLength : this.#longestPrompt(0);
    const { contextLength, lengthLimit } = this.#limits;
    const reason = most < contextLength ? "memory" : lengthLimit;
    return contextExceeded({ numPromptTokens, wantsAnswer, most, reason });
  }

  /** Gives `sequence` the blocks for its next tokens. @returns false when it was preempted itself. */
  #makeRoom(sequence: Sequence, numTokens: number): boolean {
    while (!this.#blocks.grow(sequence, sequence.numComputed + numTokens)) {
      const newest = this.#running.pop()!;
      this.#blocks.release(newest);
      newest.status = "waiting";
      this.#waiting.unshift(newest);
      this.#numPreemptions++;
      if (newest === sequence) return false;
    }
    return true;
  }

  #admitNext(): Sequence | undefined {
    const sequence = this.#waiting[0];
    if (sequence === undefined || this.#running.length === this.#limits.maxSequences) {
      return undefined;
    }
    if (this.#awaitsSibling(sequence)) return undefined;
    // One spare block per running sequence: without it new sequences are often preempted soon, and in a tight pool a
    // fifth more tokens are computed to save 5 % of the steps.
    if (!this.#blocks.admit(sequence, this.#running.length)) return undefined;
    this.#waiting.shift();
    this.#running.push(sequence);
    sequence.status = "running";
    return sequence;
  }

  /** Whether another sample of the same request is still computing the prompt that both will share. */
  #awaitsSibling(sequence: Sequence): boolean {
    const numShared = this.#blocks.numShareableTokens(sequence.numPromptTokens);
    return this.#running.some((other) =>
      other.requestId === sequence.requestId && other.numComputed < numShared
    );
  }

  /** Whether sequences of a request hold blocks, or may yet. */
  #hasSequences(requestId: number): boolean {
    const isOfRequest = (sequence: Sequence) => sequence.requestId === requestId;
    return this.#sequences.values().some(isOfRequest) || this.#endedInStep.some(isOfRequest);
  }
}

/** A step of prompts that is suspended has to be given up; it is no failure of its sequences. */
export class SuspendedStepError extends Error {}

/** Whether a sequence has its prompt behind it and lacks one token. */
function isDecoding({ length, numComputed, numPromptTokens }: Sequence): boolean {
  return length > numPromptTokens && length - numComputed === 1;
}
