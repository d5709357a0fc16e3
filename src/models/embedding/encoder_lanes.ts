/**
 * More threads that run batches of texts on the CPU, each with its own copy of the weights.
 *
 * ONNX Runtime's own threads wait for one another at every operation, and were measured on two cores to take two thirds
 * more CPU time for the same work. Lanes never wait.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import { log } from "../../log.ts";
import { readAvailableBytes } from "../available_memory.ts";
import type { FromLane, ToLane } from "./encoder_lane.ts";
import { type EncoderPlan, weighPlan } from "./encoder_plan.ts";
import type { EncodedText } from "./encoder_tokenizer.ts";

/** What a thread with ONNX Runtime takes besides the weights. */
const LANE_BYTES = 100 * 2 ** 20;
/** A lane may take this share of the memory that is free. */
const MEMORY_SHARE = 0.25;
/** Batches that a lane is given at once, so that it need not wait for the thread that hands them out. */
const BATCHES_IN_HAND = 3;

/** What lanes run. */
export interface LanesOptions {
  readonly plan: EncoderPlan;
  /** Where the files are that hold its weights. */
  readonly folder: string;
  /** Most lanes. */
  readonly maxLanes: number;
}

/** Rows of a batch, and how long it ran. */
export interface LaneRows {
  readonly rows: Float32Array;
  readonly durationMs: number;
}

/** A lane's thread is gone, and what it was to run has not run. */
export class LaneLostError extends Error {
  override readonly name = "LaneLostError";
}

/** None at first: lanes start one by one, when they would have something to do. */
export class EncoderLanes {
  readonly #options: LanesOptions;
  readonly #lanes = new Set<Lane>();
  #starting: Lane | undefined;
  #mayGrow = true;

  constructor(options: LanesOptions) {
    this.#options = options;
  }

  get numLanes(): number {
    return this.#lanes.size;
  }

  /** Takes a batch to the lane that has least in hand; `undefined` when all have enough. */
  get free(): ((texts: readonly EncodedText[]) => Promise<LaneRows>) | undefined {
    let least: Lane | undefined;
    for (const lane of this.#lanes) {
      if (lane.numInHand < (least?.numInHand ?? BATCHES_IN_HAND)) least = lane;
    }
    return least && ((texts) => least.run(texts));
  }

  /** Called when more batches wait than run at once: starts one more lane, if settings and memory allow it. */
  async grow(): Promise<void> {
    const { plan, folder, maxLanes } = this.#options;
    if (!this.#mayGrow || this.numLanes >= maxLanes) return;
    this.#mayGrow = false;
    const available = await readAvailableBytes() ?? Infinity;
    if (weighPlan(plan) + LANE_BYTES > available * MEMORY_SHARE) {
      return log.info("texts run on fewer cores than there are, for want of memory");
    }
    const lane = new Lane((reason) => this.#lose(lane, reason));
    this.#starting = lane;
    try {
      await lane.open(plan, folder);
      // Unless all was disposed of meanwhile.
      if (this.#starting !== lane) return;
      this.#lanes.add(lane);
      this.#mayGrow = true;
      log.debug("texts run on one core more", { cores: 1 + this.numLanes });
    } catch (error) {
      lane.dispose();
      if (this.#starting !== lane) return;
      log.warn("texts run on fewer cores than there are", { reason: (error as Error).message });
    }
    this.#starting = undefined;
  }

  /** Ends all threads, whatever they run. */
  dispose(): void {
    this.#mayGrow = false;
    this.#starting?.dispose();
    this.#starting = undefined;
    for (const lane of this.#lanes) lane.dispose();
    this.#lanes.clear();
  }

  #lose(lane: Lane, reason: string): void {
    // A lane that died while it started is told of there.
    if (this.#lanes.delete(lane)) log.error("a thread that ran texts is lost", { reason });
  }
}

/** One thread with an encoder. */
class Lane {
  readonly #worker: Worker;
  /** Of the messages that are not answered yet, oldest first. */
  readonly #pending: PromiseWithResolvers<FromLane>[] = [];

  /** @param onLost called when the thread dies; its pending calls fail. */
  constructor(onLost: (reason: string) => void) {
    this.#worker = new Worker(new URL("./encoder_lane.ts", import.meta.url), { type: "module" });
    this.#worker.onmessage = ({ data }: MessageEvent<FromLane>) =>
      this.#pending.shift()?.resolve(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      onLost(event.message);
      this.dispose(event.message);
    };
  }

  get numInHand(): number {
    return this.#pending.length;
  }

  /** @throws {StartupError} when it cannot be opened. */
  async open(plan: EncoderPlan, folder: string): Promise<void> {
    const answer = await this.#ask({ type: "open", plan, folder });
    if (answer.type === "failed") throw new StartupError(answer.reason);
  }

  /** @throws {LaneLostError} when the thread is lost. */
  async run(texts: readonly EncodedText[]): Promise<LaneRows> {
    const answer = await this.#ask({ type: "run", texts });
    if (answer.type === "rows") return answer;
    throw new Error(answer.type === "failed" ? answer.reason : "The lane gave no rows.");
  }

  dispose(reason = "it was ended"): void {
    this.#worker.terminate();
    for (const { reject } of this.#pending.splice(0)) {
      reject(new LaneLostError(`The thread that ran texts is lost: ${reason}`));
    }
  }

  #ask(message: ToLane): Promise<FromLane> {
    // What cannot be sent is not pending.
    this.#worker.postMessage(message);
    const pending = Promise.withResolvers<FromLane>();
    this.#pending.push(pending);
    return pending.promise;
  }
}
