/**
 * Which models are loaded: starts them when they are asked for, and ends the one used least recently where another
 * needs its place. Decides only; `ModelProcess` runs them.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";
import { chooseLeaving, chooseStarts, type RoomLimits } from "./make_room.ts";
import type { ModelAddress, ModelProcess } from "./model_process.ts";
import type { RoutedModel } from "./routed_model.ts";

/** How a pool behaves. */
interface PoolOptions extends RoomLimits {
  readonly models: readonly RoutedModel[];
  /** Time without a request after which a model is ended; never if absent. */
  readonly idleMs?: number | undefined;
  readonly start: (model: RoutedModel) => ModelProcess;
}

/** The right to send one request to a loaded model, until it is disposed of. */
export interface Lease extends Disposable {
  readonly model: RoutedModel;
  readonly address: ModelAddress;
}

type ModelStatus = "unloaded" | "loading" | "loaded" | "unloading";

/** What is known of a model. */
export interface ModelState {
  readonly model: RoutedModel;
  readonly status: ModelStatus;
  /** Why it could not be loaded the last time; absent if it could, or was not asked for. */
  readonly failure: string | undefined;
  /** `undefined` unless it is loaded. */
  readonly address: ModelAddress | undefined;
  /** Requests that it works on, and that wait for it. */
  readonly numInUse: number;
  readonly numWaiting: number;
  /** How often it was started. */
  readonly numStarts: number;
  /** How often its process ended unasked. */
  readonly numLosses: number;
  /** Memory that it takes, or took the last time; 0 if unknown. */
  readonly bytes: number;
}

interface Slot extends ModelState {
  model: RoutedModel;
  status: ModelStatus;
  failure: string | undefined;
  address: ModelAddress | undefined;
  process: ModelProcess | undefined;
  numInUse: number;
  readonly numWaiting: number;
  numStarts: number;
  numLosses: number;
  bytes: number;
  readonly isLoaded: boolean;
  /** Takes no new requests: it ends when those that it has are done. */
  isLeaving: boolean;
  /** Counts up with each use, over all models. */
  lastUse: number;
  /** The same for when the first of those that wait came. */
  waitingSince: number;
  readonly waiting: Set<PromiseWithResolvers<Lease>>;
  idleTimer: ReturnType<typeof setTimeout> | undefined;
}

/** The models and their processes. */
export class ModelPool {
  readonly #options: PoolOptions;
  readonly #slots: readonly Slot[];
  #clock = 0;
  #isClosing = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#slots = options.models.map(newSlot);
  }

  /** All models in the order in which they were named. */
  get states(): readonly ModelState[] {
    return this.#slots;
  }

  /**
   * Waits until the model is loaded. Aborting `signal` ends the wait; a start that has begun goes on.
   *
   * @throws {HearthError} `model_not_loaded` when it cannot be loaded, `shutting_down`.
   */
  async acquire(model: RoutedModel, signal: AbortSignal): Promise<Lease> {
    signal.throwIfAborted();
    if (this.#isClosing) throw shuttingDown();
    const slot = this.#getSlot(model);
    if (takesRequests(slot)) return this.#lease(slot);
    const waiter = Promise.withResolvers<Lease>();
    if (slot.waiting.size === 0) slot.waitingSince = ++this.#clock;
    slot.waiting.add(waiter);
    const leave = () => {
      if (slot.waiting.delete(waiter)) waiter.reject(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#schedule();
    try {
      return await waiter.promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /** Ends a model when its requests are done. Resolves when its process has ended; at once if it has none. */
  async unload(model: RoutedModel): Promise<void> {
    const slot = this.#getSlot(model);
    const { process } = slot;
    if (process === undefined) return;
    slot.isLeaving = true;
    this.#schedule();
    await process.ended;
  }

  /** Refuses new requests, lets the processes finish those they have, and resolves when all have ended. */
  async close(): Promise<void> {
    this.#isClosing = true;
    for (const slot of this.#slots) rejectAll(slot, shuttingDown());
    const processes = this.#slots.flatMap(({ process }) => process ?? []);
    for (const process of processes) process.stop();
    await Promise.all(processes.map(({ ended }) => ended));
  }

  /** Does whatever can be done now; called after each change. */
  #schedule(): void {
    if (this.#isClosing) return;
    for (const slot of this.#slots) this.#serve(slot);
    const wanted = this.#slots
      .filter(({ process, waiting }) => process === undefined && waiting.size > 0)
      .sort((a, b) => a.waitingSince - b.waitingSince);
    const starting = chooseStarts(wanted, this.#running, this.#options);
    for (const slot of starting) this.#start(slot);
    const others = wanted.slice(starting.length);
    for (const slot of chooseLeaving(this.#running, others, this.#options)) slot.isLeaving = true;
    for (const slot of this.#slots) {
      if (slot.isLeaving && slot.status === "loaded" && slot.numInUse === 0) end(slot);
    }
  }

  /** Those that have a process. */
  get #running(): Slot[] {
    return this.#slots.filter(({ process }) => process !== undefined);
  }

  /** Where memory is limited, looks what the model takes now. */
  #measure(slot: Slot): void {
    if (this.#options.maxBytes === Infinity || slot.model.memoryBytes !== undefined) return;
    slot.bytes = slot.process?.memoryBytes() ?? slot.bytes;
  }

  /** Gives all that wait for a loaded model their leases. */
  #serve(slot: Slot): void {
    if (!takesRequests(slot)) return;
    for (const waiter of slot.waiting) waiter.resolve(this.#lease(slot));
    slot.waiting.clear();
  }

  #lease(slot: Slot & { readonly address: ModelAddress }): Lease {
    const { model, process, address } = slot;
    clearTimeout(slot.idleTimer);
    slot.numInUse++;
    slot.lastUse = ++this.#clock;
    let isHeld = true;
    const release = () => {
      // A process that ended took its requests with it.
      if (!isHeld || slot.process !== process) return;
      isHeld = false;
      slot.numInUse--;
      if (slot.numInUse === 0) this.#measure(slot);
      this.#watchIdle(slot);
      this.#schedule();
    };
    return { model, address, [Symbol.dispose]: release };
  }

  #start(slot: Slot): void {
    slot.status = "loading";
    slot.numStarts++;
    const process = this.#options.start(slot.model);
    slot.process = process;
    const hasFailed = process.ready.then((address) => {
      if (slot.process !== process) return false;
      slot.address = address;
      slot.model = { ...slot.model, kind: address.kind };
      slot.failure = undefined;
      if (slot.status === "loading") slot.status = "loaded";
      this.#measure(slot);
      this.#watchIdle(slot);
      this.#schedule();
      return false;
    }, (error: Error) => {
      slot.failure = error.message;
      return true;
    });
    process.ended.then(async () => this.#forget(slot, { hasFailed: await hasFailed }));
  }

  /** The process of a model has ended. */
  #forget(slot: Slot, { hasFailed }: { readonly hasFailed: boolean }): void {
    clearTimeout(slot.idleTimer);
    if (slot.status === "loaded") slot.numLosses++;
    Object.assign(slot, {
      status: "unloaded",
      process: undefined,
      address: undefined,
      isLeaving: false,
      numInUse: 0,
    });
    if (hasFailed) rejectAll(slot, notLoaded(slot));
    this.#schedule();
  }

  #watchIdle(slot: Slot): void {
    clearTimeout(slot.idleTimer);
    const { idleMs } = this.#options;
    if (idleMs === undefined || slot.numInUse > 0 || slot.status !== "loaded") return;
    slot.idleTimer = setTimeout(() => {
      slot.isLeaving = true;
      this.#schedule();
    }, idleMs);
  }

  #getSlot({ id }: RoutedModel): Slot {
    return this.#slots.find(({ model }) => model.id === id)!;
  }
}

/** Whether requests go to it at once. */
function takesRequests(slot: Slot): slot is Slot & { readonly address: ModelAddress } {
  return slot.status === "loaded" && !slot.isLeaving && slot.address !== undefined;
}

function newSlot(model: RoutedModel): Slot {
  const waiting = new Set<PromiseWithResolvers<Lease>>();
  return {
    bytes: model.memoryBytes ?? 0,
    get isLoaded() {
      return this.status === "loaded";
    },
    model,
    status: "unloaded",
    failure: undefined,
    address: undefined,
    process: undefined,
    numInUse: 0,
    get numWaiting() {
      return waiting.size;
    },
    numStarts: 0,
    numLosses: 0,
    isLeaving: false,
    lastUse: 0,
    waitingSince: 0,
    waiting,
    idleTimer: undefined,
  };
}

function end(slot: Slot): void {
  clearTimeout(slot.idleTimer);
  slot.status = "unloading";
  slot.process?.stop();
}

function rejectAll({ waiting }: Slot, error: HearthError): void {
  for (const waiter of waiting) waiter.reject(error);
  waiting.clear();
}

function shuttingDown(): HearthError {
  return new HearthError("shutting_down", "shutting down");
}

/** The reason may contain this machine's paths: it is in the log. */
function notLoaded({ model: { id } }: Slot): HearthError {
  return new HearthError(
    "model_not_loaded",
    `The model ${id} could not be loaded; the server's log says why. The next request tries again.`,
  );
}
