/**
 * An encoder that runs several batches at once where the CPU has several cores: one in this thread, the others in
 * threads of their own, each with its own copy of the weights.
 *
 * ONNX Runtime's own threads were measured on two cores to take two thirds more CPU time for the same work, since
 * they wait for one another at every operation. Lanes never wait: 1.9 times the throughput of one.
 *
 * @module
 */
import { StartupError } from "../errors.ts";
import { log } from "../log.ts";
import { readAvailableBytes } from "./available_memory.ts";
import type { Encoder } from "./encoder.ts";
import type { FromLane, LaneOptions, ToLane } from "./encoder_lane.ts";
import type { EncodedText } from "./encoder_tokenizer.ts";

/** More lanes than this are kept from each other by memory traffic. */
const MAX_LANES = 8;
/** What a thread with ONNX Runtime takes besides the weights. */
const LANE_BYTES = 100 * 2 ** 20;
/** A lane may take this share of the memory that is free. */
const MEMORY_SHARE = 0.25;

/** What further lanes need; without it, or without further cores, there is but the encoder itself. */
export interface LanesOptions extends LaneOptions {
  readonly weightsBytes: number;
}

/** See the module. It owns the encoder. */
export class EncoderLanes {
  readonly #own: Encoder;
  readonly #options: LanesOptions | undefined;
  readonly #lanes: Lane[] = [];
  #starting: Lane | undefined;
  #mayGrow: boolean;

  constructor(own: Encoder, options?: LanesOptions) {
    this.#own = own;
    this.#options = options;
    this.#mayGrow = options !== undefined;
  }

  get maxTexts(): number {
    return this.#own.maxTexts;
  }

  /** Elements of a row. */
  get width(): number {
    return this.#own.width;
  }

  /** Batches that run at once. */
  get numLanes(): number {
    return 1 + this.#lanes.length;
  }

  /**
   * Runs batches at once, `numLanes` at most.
   *
   * @returns for each a row of f32 elements per text, one after the other.
   */
  runAll(batches: readonly (readonly EncodedText[])[]): Promise<Float32Array>[] {
    const [first, ...others] = batches;
    // The others first: once its own batch runs, this thread does nothing else.
    const later = others.map((texts, index) => this.#lanes[index]!.run(texts));
    return first === undefined ? [] : [this.#own.run(first), ...later];
  }

  /** Called when more batches wait than run at once: starts one more lane, if cores and memory allow it. */
  async grow(): Promise<void> {
    if (!this.#mayGrow || this.numLanes >= Math.min(MAX_LANES, navigator.hardwareConcurrency)) {
      return;
    }
    this.#mayGrow = false;
    const { weightsBytes, ...options } = this.#options!;
    const available = await readAvailableBytes() ?? Infinity;
    if (weightsBytes + LANE_BYTES > available * MEMORY_SHARE) return;
    const lane = new Lane((reason) => this.#lose(lane, reason));
    this.#starting = lane;
    try {
      await lane.load(options);
    } catch (error) {
      log.warn("texts run on fewer cores than there are", { reason: (error as Error).message });
      return lane.dispose();
    } finally {
      this.#starting = undefined;
    }
    this.#lanes.push(lane);
    this.#mayGrow = true;
    log.info("texts run on one core more", { cores: this.numLanes });
  }

  async dispose(): Promise<void> {
    this.#starting?.dispose();
    for (const lane of this.#lanes.splice(0)) lane.dispose();
    await this.#own.dispose();
  }

  #lose(lane: Lane, reason: string): void {
    const place = this.#lanes.indexOf(lane);
    if (place >= 0) this.#lanes.splice(place, 1);
    log.error("a thread that ran texts is lost", { reason });
  }
}

/** One thread with an encoder. One call at a time. */
class Lane {
  readonly #worker: Worker;
  #pending: PromiseWithResolvers<FromLane> | undefined;

  /** @param onLost called when the thread dies; its pending call fails. */
  constructor(onLost: (reason: string) => void) {
    this.#worker = new Worker(new URL("./encoder_lane.ts", import.meta.url), { type: "module" });
    this.#worker.onmessage = ({ data }: MessageEvent<FromLane>) => this.#pending?.resolve(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      onLost(event.message);
      this.dispose();
      this.#pending?.reject(new Error(`The thread died: ${event.message}`));
    };
  }

  async load(options: LaneOptions): Promise<void> {
    const answer = await this.#ask({ type: "load", options });
    if (answer.type === "failed") throw new StartupError(answer.reason);
  }

  async run(texts: readonly EncodedText[]): Promise<Float32Array> {
    const answer = await this.#ask({ type: "run", texts });
    if (answer.type === "rows") return answer.rows;
    throw new Error(answer.type === "failed" ? answer.reason : "The thread gave no rows.");
  }

  dispose(): void {
    this.#worker.terminate();
  }

  #ask(message: ToLane): Promise<FromLane> {
    this.#pending = Promise.withResolvers();
    this.#worker.postMessage(message);
    return this.#pending.promise;
  }
}
