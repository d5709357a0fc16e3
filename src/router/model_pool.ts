/**
 * Decides which models are loaded: loads a model when a request needs it, and unloads the least recently used models
 * when there is no room for another. A `ModelProcess` runs each model.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";
import {
  chooseEvictions,
  chooseStarts,
  type RoomLimits,
  type RoutedModel,
} from "./routed_model.ts";
import type { ModelAddress, ModelProcess } from "./model_process.ts";

interface PoolOptions extends RoomLimits {
  readonly models: readonly RoutedModel[];
  /** Time without a request after which a model is unloaded; never if absent. */
  readonly idleMs?: number | undefined;
  readonly start: (model: RoutedModel) => ModelProcess;
}

/** The right to send one request to a loaded model, until the lease is disposed. */
export interface Lease extends Disposable {
  readonly model: RoutedModel;
  readonly address: ModelAddress;
}

type ModelStatus = "unloaded" | "loading" | "loaded" | "unloading";

export interface ModelState {
  readonly model: RoutedModel;
  readonly status: ModelStatus;
  /** The reason why the last attempt to load the model failed; `undefined` if it succeeded, or there was none. */
  readonly failure: string | undefined;
  /** Address of the model's process; `undefined` unless it is loaded. */
  readonly address: ModelAddress | undefined;
  /** Number of requests that the model works on. */
  readonly numInUse: number;
  /** Number of requests that wait until the model is loaded. */
  readonly numWaiting: number;
  /** How often the process was started. */
  readonly numStarts: number;
  /** How often the process ended unexpectedly. */
  readonly numLosses: number;
  /** Memory of the model: as configured, or else as last measured; 0 if unknown. */
  readonly bytes: number;
}

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

interface Slot extends Writable<Omit<ModelState, "numWaiting">> {
  process: ModelProcess | undefined;
  readonly numWaiting: number;
  readonly isLoaded: boolean;
  /** Whether the model takes no new requests, and is unloaded when its current ones are done. */
  isDraining: boolean;
  /** Value of the pool's clock when the model was last used. */
  lastUse: number;
  /** Value of the pool's clock when the first of the waiting requests came. */
  waitingSince: number;
  readonly waiting: Set<PromiseWithResolvers<Lease>>;
  idleTimer: ReturnType<typeof setTimeout> | undefined;
}

/** The models and their processes. */
export class ModelPool {
  readonly #options: PoolOptions;
  readonly #slots: readonly Slot[];
  /** Orders events by counting them. */
  #clock = 0;
  #isClosing = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#slots = options.models.map(makeSlot);
  }

  /** The states of all models, in the order of `PoolOptions.models`. */
  get states(): readonly ModelState[] {
    return this.#slots;
  }

  /**
   * Gets a lease on a model, and loads it if needed. Aborting `signal` ends the wait, but does not stop a process that
   * has been started.
   *
   * @throws {HearthError} `model_not_loaded` when it cannot be loaded; `shutting_down` when the router is stopping.
   */
  async acquire(model: RoutedModel, signal: AbortSignal): Promise<Lease> {
    signal.throwIfAborted();
    if (this.#isClosing) throw shuttingDownError();
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

  /** Unloads a model when its requests are done. Resolves when its process has ended; at once if it has none. */
  async unload(model: RoutedModel): Promise<void> {
    const slot = this.#getSlot(model);
    const { process } = slot;
    if (process === undefined) return;
    slot.isDraining = true;
    this.#schedule();
    await process.ended;
  }

  /** Refuses new requests. The processes finish the requests that they have. Resolves when all have ended. */
  async close(): Promise<void> {
    this.#isClosing = true;
    for (const slot of this.#slots) rejectAll(slot, shuttingDownError());
    const processes = this.#slots.flatMap(({ process }) => process ?? []);
    for (const process of processes) process.stop();
    await Promise.all(processes.map(({ ended }) => ended));
  }

  /** Loads and unloads models, and gives leases to waiting requests, as far as possible now. Called after each change. */
  #schedule(): void {
    if (this.#isClosing) return;
    for (const slot of this.#slots) this.#serveWaiting(slot);
    const wanted = this.#slots
      .filter(({ process, waiting }) => process === undefined && waiting.size > 0)
      .sort((a, b) => a.waitingSince - b.waitingSince);
    const starting = chooseStarts(wanted, this.#running, this.#options);
    for (const slot of starting) this.#start(slot);
    const others = wanted.slice(starting.length);
    for (const slot of chooseEvictions(this.#running, others, this.#options)) {
      slot.isDraining = true;
    }
    for (const slot of this.#slots) {
      if (slot.isDraining && slot.status === "loaded" && slot.numInUse === 0) stopProcess(slot);
    }
  }

  /** Slots with a process. */
  get #running(): Slot[] {
    return this.#slots.filter(({ process }) => process !== undefined);
  }

  /** Measures the model's memory, if memory is limited and the user has not given an amount. */
  #measure(slot: Slot): void {
    if (this.#options.maxBytes === Infinity || slot.model.memoryBytes !== undefined) return;
    slot.bytes = slot.process?.memoryBytes() ?? slot.bytes;
  }

  /** Gives leases to the waiting requests if the model is loaded. */
  #serveWaiting(slot: Slot): void {
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
      // If the process has ended, its leases no longer count.
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

  /** Called when the process of a model has ended. */
  #forget(slot: Slot, { hasFailed }: { readonly hasFailed: boolean }): void {
    clearTimeout(slot.idleTimer);
    if (slot.status === "loaded") slot.numLosses++;
    Object.assign(slot, {
      status: "unloaded",
      process: undefined,
      address: undefined,
      isDraining: false,
      numInUse: 0,
    });
    if (hasFailed) rejectAll(slot, notLoadedError(slot));
    this.#schedule();
  }

  #watchIdle(slot: Slot): void {
    clearTimeout(slot.idleTimer);
    const { idleMs } = this.#options;
    if (idleMs === undefined || slot.numInUse > 0 || slot.status !== "loaded") return;
    slot.idleTimer = setTimeout(() => {
      slot.isDraining = true;
      this.#schedule();
    }, idleMs);
  }

  #getSlot({ id }: RoutedModel): Slot {
    return this.#slots.find(({ model }) => model.id === id)!;
  }
}

/** Whether the model takes requests now. */
function takesRequests(slot: Slot): slot is Slot & { readonly address: ModelAddress } {
  return slot.status === "loaded" && !slot.isDraining && slot.address !== undefined;
}

function makeSlot(model: RoutedModel): Slot {
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
    isDraining: false,
    lastUse: 0,
    waitingSince: 0,
    waiting,
    idleTimer: undefined,
  };
}

function stopProcess(slot: Slot): void {
  clearTimeout(slot.idleTimer);
  slot.status = "unloading";
  slot.process?.stop();
}

function rejectAll({ waiting }: Slot, error: HearthError): void {
  for (const waiter of waiting) waiter.reject(error);
  waiting.clear();
}

function shuttingDownError(): HearthError {
  return new HearthError("shutting_down", "shutting down");
}

/**
 * The error for requests that waited for a model when loading it failed. The reason is only logged, because it may
 * contain paths on this machine.
 */
function notLoadedError({ model: { id } }: Slot): HearthError {
  return new HearthError(
    "model_not_loaded",
    `The model ${id} could not be loaded; the server's log says why. The next request tries again.`,
  );
}
