/**
 * Random requests that arrive, run and are cancelled at random times, with every invariant checked after each step.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { DecoderLimits, SampledToken } from "../../../src/decoder/decoder.ts";
import { PoolSize } from "../../../src/engine/kv_pool.ts";
import { Scheduler, SuspendedStepError } from "../../../src/engine/scheduler.ts";
import { type ScheduledStep, StepBuilder } from "../../../src/engine/step.ts";
import { countMostWindowBlocks } from "../../../src/decoder/paged_limits.ts";
import { Invariants, type Tracked } from "./invariants.ts";
import { Random } from "./random.ts";
import { GREEDY, makeLimits, SimulatedDecoder, VOCAB_SIZE } from "./simulated_decoder.ts";

/** Ends a completion. */
const END_TOKEN = 0;

/** Counts of events in workloads, to prove that they cover the intended cases. */
export class Coverage {
  steps = 0;
  finished = 0;
  preemptions = 0;
  prefixHitTokens = 0;
  tailHits = 0;
  cancelledWaiting = 0;
  cancelledInPrompt = 0;
  cancelledInFlight = 0;
  cancelledInCompletion = 0;
  scored = 0;
  enlarged = 0;
  shrunk = 0;
  shrinkingPrefixes = 0;
  refusals = 0;
  refusedSequences = 0;
  shortenedSequences = 0;
  failedSteps = 0;
  /** Steps with only prompts, which may be suspended. */
  stepsApart = 0;
  /** Decode steps during a suspension. */
  stepsBeside = 0;
  abandonedSteps = 0;
  cancelledSuspended = 0;
  lengthened = 0;
  stateHits = 0;
  savedStates = 0;
  windowHits = 0;
  /** Hits after a prefix whose first blocks are outside the window. */
  longWindowHits = 0;
}

/** The simulated lifetime of one server: the seed determines limits and requests. */
export class Workload {
  readonly #random: Random;
  readonly #limits: DecoderLimits;
  readonly #prefixCache: boolean;
  readonly #scheduler: Scheduler;
  readonly #builder: StepBuilder;
  readonly #builderBeside: StepBuilder;
  readonly #decoder: SimulatedDecoder;
  readonly #live = new Map<number, Tracked>();
  readonly #invariants: Invariants;
  readonly #coverage: Coverage;
  readonly #cancelChance: number;
  readonly #failureChance: number;
  #numRestarts = 0;
  /** Each prompt begins with the first tokens of one of these. */
  readonly #prefixes: number[][];
  /** The sizes of the pools, and the device's maximum. */
  readonly #pools: readonly PoolSize[];
  readonly #deviceBlocks: readonly number[];
  /** Simulated time, which advances with steps. */
  #nowMs = 0;

  constructor(seed: number, coverage: Coverage) {
    const random = new Random(seed);
    const sharesBlocks = random.chance(0.9);
    const blockSize = random.pick([1, 2, 4, 16]);
    const contextLength = random.between(8, 96);
    this.#random = random;
    this.#coverage = coverage;
    const grows = random.chance(0.7);
    const getPool = (numBlocks: number) => {
      const maxBlocks = grows ? numBlocks * random.pick([2, 5]) : numBlocks;
      const roomyBlocks = random.chance(0.7) ? numBlocks : random.between(numBlocks, maxBlocks);
      return { numBlocks, roomyBlocks, maxBlocks };
    };
    const maxBatchTokens = random.pick([1, 7, 16, 64]);
    const windows = Array.from({ length: random.pick([0, 0, 1, 2]) }, () => {
      const window = random.between(1, 48);
      const least = countMostWindowBlocks({ window, blockSize, maxBatchTokens });
      return { window, ...getPool(Math.ceil(least * random.pick([0.5, 1, 1.5, 4]))) };
    });
    const main = getPool(Math.ceil(contextLength * random.pick([0.5, 1, 2]) / blockSize));
    this.#deviceBlocks = [main, ...windows].map(({ numBlocks, maxBlocks }) =>
      random.chance(0.2) ? maxBlocks : random.between(numBlocks, maxBlocks)
    );
    this.#limits = makeLimits({
      blockSize,
      ...main,
      windows: windows.length > 0 ? windows : undefined,
      contextLength,
      maxBatchTokens,
      maxSequences: sharesBlocks ? random.between(1, 8) : 1,
      sharesBlocks,
      numStateSlots: random.chance(0.4) ? random.between(1, 12) : undefined,
      longFrom: random.chance(0.3) ? random.between(4, contextLength) : undefined,
    });
    this.#failureChance = this.#limits.numStateSlots ? random.pick([0, 0.05]) : 0;
    this.#prefixCache = random.chance(0.7);
    this.#scheduler = new Scheduler(this.#limits, { prefixCache: this.#prefixCache });
    this.#pools = [this.#limits, ...windows].map((limits) => new PoolSize(limits));
    this.#builder = new StepBuilder(this.#limits);
    this.#builderBeside = new StepBuilder(this.#limits);
    this.#decoder = new SimulatedDecoder(this.#limits);
    this.#invariants = new Invariants(this.#limits, this.#live);
    this.#cancelChance = random.pick([0, 0.02, 0.1]);
    const prefixLength = random.pick([0, 8, 48]);
    this.#prefixes = [0, 1, 2].map(() => this.#randomTokens(prefixLength));
  }

  /** Runs `numRequests` to their end. */
  run(numRequests: number): void {
    let numToCome = numRequests;
    let maxSteps = 0;
    for (let numSteps = 0; numToCome > 0 || this.#live.size > 0; numSteps++) {
      while (numToCome > 0 && (this.#live.size === 0 || this.#random.chance(0.4))) {
        maxSteps += this.#add();
        numToCome--;
      }
      const most = maxSteps * (1 + this.#numRestarts);
      assert(numSteps < most, "more steps than all sequences may have tokens");
      this.#maybeCancel();
      this.#fitPool();
      this.#step();
      this.#maybeShrink();
    }
    this.#checkIdle();
    const { numPreemptions, numPrefixHitTokens } = this.#scheduler.stats();
    this.#coverage.preemptions += numPreemptions;
    this.#coverage.prefixHitTokens += numPrefixHitTokens;
  }

  /** @returns the maximum number of tokens of the new sequences. */
  #add(): number {
    const random = this.#random;
    const prefix = random.pick(this.#prefixes);
    const promptTokens = [
      ...prefix.slice(0, random.between(0, prefix.length)),
      ...this.#randomTokens(random.between(1, 12)),
    ];
    for (const [index, pool] of this.#pools.entries()) {
      this.#scheduler.limitPool(pool.mostAt(this.#nowMs), index);
    }
    const longest = this.#scheduler.maxSequenceLength;
    const request = {
      promptTokens: Int32Array.from(promptTokens.slice(0, longest - 1)),
      samples: [0, 1, 2, 3].slice(0, random.pick([1, 1, 1, 2, 4])).map((seed) => ({
        ...GREEDY,
        seed,
      })),
      maxTokens: random.chance(0.8) ? random.between(1, 24) : undefined,
      topLogprobs: 0,
      promptLogprobs: random.chance(0.2) ? 0 : undefined,
    };
    let maxTokens = 0;
    for (const [seed, sequence] of this.#scheduler.add(request).entries()) {
      this.#live.set(sequence.id, {
        sequence,
        request,
        seed,
        numSeen: undefined,
        decodes: false,
        scores: [],
      });
      maxTokens += sequence.maxLength;
    }
    return maxTokens;
  }

  /** Simulates `KvPool` with a device of a limited number of blocks. */
  #fitPool(): void {
    this.#nowMs += this.#random.between(0, 5000);
    const demands = this.#scheduler.demand();
    for (const [index, pool] of this.#pools.entries()) {
      const sizes = pool.sizesFor(demands[index]!, this.#nowMs);
      const given = sizes.find((size) => size <= this.#deviceBlocks[index]!);
      if (given !== undefined) {
        this.#coverage.enlarged++;
        this.#resize(given, index);
        this.#fitPool();
        return;
      }
      if (sizes.length > 0) {
        pool.refuse(this.#nowMs);
        this.#coverage.refusals++;
      }
      const isShort = demands[index]!.numMissing > 0;
      if (isShort && pool.mostAt(this.#nowMs) === pool.numBlocks) this.#limitPool(index);
    }
  }

  #limitPool(pool: number): void {
    const longest = new Map([...this.#live].map(([id, { sequence }]) => [id, sequence.maxLength]));
    const refused = this.#scheduler.limitPool(this.#pools[pool]!.numBlocks, pool);
    for (const { sequence, error } of refused) {
      assert.equal(error.kind, "context_length_exceeded");
      assert.equal(sequence.status, "waiting", "a sequence that runs is refused");
      this.#coverage.refusedSequences++;
      this.#end(this.#live.get(sequence.id)!);
    }
    for (const [id, { sequence }] of this.#live) {
      if (sequence.maxLength < longest.get(id)!) this.#coverage.shortenedSequences++;
    }
  }

  #resize(numBlocks: number, pool: number): void {
    assert(this.#scheduler.resize(numBlocks, pool));
    this.#decoder.resize(numBlocks, pool);
    this.#pools[pool]!.set(numBlocks, this.#nowMs);
    this.#invariants.numBlocks[pool] = numBlocks;
    this.#invariants.checkBlocks(this.#scheduler.stats());
  }

  #maybeShrink(): void {
    // Nothing is left to schedule, not even an abandoned step.
    if (this.#live.size === 0) assert.equal(this.#scheduler.schedule(), undefined);
    const stats = this.#scheduler.stats();
    for (const [index, { numUsedBlocks }] of [stats, ...stats.windows].entries()) {
      const pool = this.#pools[index]!;
      pool.observe(numUsedBlocks, this.#nowMs);
      if (this.#live.size > 0) continue;
      const inMs = pool.shrinksIn(this.#nowMs);
      if (inMs === undefined) continue;
      this.#nowMs += inMs;
      this.#coverage.shrunk++;
      this.#resize(pool.restingSize, index);
      if (this.#scheduler.stats().numCachedBlocks > 0) this.#coverage.shrinkingPrefixes++;
    }
  }

  #step(): void {
    const { size } = this.#live;
    let hasStream = [...this.#live.values()].some(({ sequence, decodes }) =>
      decodes && sequence.status === "running" && sequence.length - sequence.numComputed === 1
    );
    const most = this.#random.chance(0.7) ? Infinity : this.#random.between(0, 4);
    const numLong = this.#countLong();
    const mostPromptTokens = this.#random.pick([1, 5, Infinity]);
    const step = this.#scheduler.schedule({ mostBeside: most, mostPromptTokens });
    this.#invariants.leaving.clear();
    if (this.#countLong() > numLong) {
      this.#coverage.lengthened++;
      hasStream = false;
      this.#beginAnew();
    }
    assert.equal(step === undefined, size === 0);
    if (step === undefined) return;
    this.#coverage.steps++;
    this.#invariants.checkQueue(this.#scheduler.stats());
    this.#invariants.checkStep(step);
    if (hasStream && step.numNextTokens > 0) {
      assert(step.numTokens - step.numNextTokens <= most, "too many prompt tokens");
    }
    if (step.isApart) assert(step.numTokens <= mostPromptTokens, "too many prompt tokens apart");
    for (const { sequence: { id, numComputed, windowTables }, savedState } of step.scheduled) {
      if (savedState) this.#coverage.savedStates++;
      const isAdmitted = this.#live.get(id)!.numSeen === undefined;
      if (isAdmitted && numComputed % this.#limits.blockSize > 0) this.#coverage.tailHits++;
      if (isAdmitted && numComputed > 0 && step.stateCopies) this.#coverage.stateHits++;
      if (isAdmitted && numComputed > 0 && windowTables.length > 0) this.#coverage.windowHits++;
      if (isAdmitted && windowTables.some(({ first }) => first > 0)) {
        this.#coverage.longWindowHits++;
      }
    }
    const batch = this.#builder.build(step);
    // An encoder, for example, fails before anything has run.
    if (this.#random.chance(this.#failureChance)) return this.#fail();
    this.#decoder.begin(batch);
    // Concurrent steps may run before the step has written anything, or after it has written everything.
    if (step.isApart) this.#coverage.stepsApart++;
    if (step.isApart && !this.#runBeside(step)) return;
    const sampled = this.#decoder.compute(batch);
    if (step.isApart && !this.#runBeside(step)) return;
    this.#invariants.checkBatch(step, batch, this.#decoder);
    this.#invariants.checkBlocks(this.#scheduler.stats());

    this.#maybeCancel("in flight");
    if (this.#random.chance(this.#failureChance)) return this.#fail();
    this.#commit(step, sampled);
  }

  #commit(step: ScheduledStep, sampled: readonly SampledToken[]): void {
    const committed = this.#scheduler.commit(step, sampled);
    if (step.isApart) this.#invariants.leaving.clear();
    for (const { sequence, token, isScored } of committed) {
      const tracked = this.#live.get(sequence.id);
      assert(tracked !== undefined, "a token for a sequence that has ended");
      if (isScored) {
        tracked.scores.push(token);
        this.#coverage.scored++;
        continue;
      }
      this.#invariants.checkScores(tracked);
      tracked.decodes = true;
      if (token.tokenId !== END_TOKEN && !sequence.isFull) continue;
      this.#invariants.checkCompletion(tracked);
      this.#coverage.finished++;
      this.#end(tracked);
    }
    this.#invariants.checkBlocks(this.#scheduler.stats());
  }

  /** Runs some decode steps while a prompt step is suspended. @returns whether the prompt step continues. */
  #runBeside(suspended: ScheduledStep): boolean {
    try {
      for (let left = this.#random.between(0, 3); left > 0; left--) {
        this.#fitPool();
        const step = this.#scheduler.scheduleBeside(suspended);
        if (step === undefined) break;
        this.#coverage.stepsBeside++;
        this.#invariants.checkStep(step, suspended);
        const batch = this.#builderBeside.build(step);
        if (this.#random.chance(this.#failureChance)) {
          this.#fail();
          continue;
        }
        const sampled = this.#decoder.run(batch);
        this.#invariants.checkBatch(step, batch, this.#decoder);
        this.#maybeCancel("in flight");
        this.#commit(step, sampled);
        if (this.#maybeCancel("in flight")) this.#coverage.cancelledSuspended++;
      }
      this.#scheduler.requireSuspended(suspended);
      return true;
    } catch (error) {
      if (!(error instanceof SuspendedStepError)) throw error;
      this.#coverage.abandonedSteps++;
      if (this.#limits.numStateSlots) this.#beginAnew();
      else this.#numRestarts++;
      return false;
    }
  }

  /** Simulates a failed step, after which sequences with states are computed again. */
  #fail(): void {
    this.#coverage.failedSteps++;
    this.#beginAnew();
  }

  #countLong(): number {
    return this.#live.values().reduce((sum, { sequence }) => sum + (sequence.isLong ? 1 : 0), 0);
  }

  /** Lets all sequences be computed again from their first token. */
  #beginAnew(): void {
    this.#numRestarts++;
    for (const tracked of this.#live.values()) {
      tracked.numSeen = undefined;
      tracked.decodes = false;
    }
  }

  /** @returns whether a sequence was cancelled. */
  #maybeCancel(when?: "in flight"): boolean {
    if (this.#live.size === 0 || !this.#random.chance(this.#cancelChance)) return false;
    const tracked = this.#random.pick([...this.#live.values()]);
    const { sequence } = tracked;
    if (when === "in flight") this.#coverage.cancelledInFlight++;
    else if (sequence.status === "waiting") this.#coverage.cancelledWaiting++;
    else if (sequence.numComputed < sequence.numPromptTokens) this.#coverage.cancelledInPrompt++;
    else this.#coverage.cancelledInCompletion++;
    this.#end(tracked);
    return true;
  }

  #end({ sequence }: Tracked): void {
    this.#live.delete(sequence.id);
    // Sequences may be cancelled twice, and after their end.
    for (let i = 0; i < 2; i++) this.#scheduler.end(sequence.id);
    assert.equal(sequence.status, "ended");
    if (sequence.blockIds.length > 0) this.#invariants.leaving.add(sequence);
    this.#invariants.checkBlocks(this.#scheduler.stats());
  }

  #checkIdle(): void {
    const stats = this.#scheduler.stats();
    assert.deepEqual([stats.numRunning, stats.numWaiting, stats.numUsedBlocks], [0, 0, 0]);
    const keepsPrefixes = this.#prefixCache && this.#limits.sharesBlocks;
    assert(
      keepsPrefixes || stats.numCachedBlocks === 0,
      "a prefix is kept that no request may use",
    );
  }

  #randomTokens(length: number): number[] {
    return Array.from({ length }, () => this.#random.between(0, VOCAB_SIZE - 1));
  }
}
