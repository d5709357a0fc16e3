/**
 * The thread that owns the device. It loads the model and takes requests, each with a port for its events.
 *
 * @module
 */
import { join } from "node:path";
import { collectGarbageLater } from "../base/memory.ts";
import { configureLog, log } from "../base/log.ts";
import { countStepsIn, startThreadsBy } from "../base/threads.ts";
import {
  formatRefusal,
  HearthError,
  type Refusal,
  type SettingNames,
  StartupError,
} from "../base/errors.ts";
import { openBackend } from "../device/open.ts";
import type { Backend } from "../device/backend.ts";
import { loadModel } from "../models/load/load.ts";
import { listMedia, type Task, type TaskEvent } from "../models/task.ts";
import { answerTokens, type Model } from "../models/model.ts";
import { DocumentTasks } from "../models/documents/document_tasks.ts";
import {
  Backpressure,
  type FromWorker,
  isPaced,
  type LoadOptions,
  type ToRequest,
  type ToWorker,
} from "./protocol.ts";

/** Maximum number of unread chunks of an answer. */
const MAX_UNREAD = 2;
/** Delays before work that can wait: while there are no requests, and while there are some. */
const LATER_MS = { idle: 20, busy: 2_000 };

interface Loaded {
  readonly settingNames: SettingNames;
  readonly backend: Backend;
  readonly model: Model;
  readonly tasks: DocumentTasks;
}

const scope = globalThis as unknown as Pick<typeof globalThis, "addEventListener"> & {
  postMessage(message: FromWorker): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
};

let backend: Backend | undefined;
let loaded: Loaded | undefined;
let loading: Promise<void> | undefined;
let isStopping = false;

async function load(options: LoadOptions): Promise<void> {
  configureLog(options.log);
  try {
    const { device, cpuRuntime, engine } = options;
    const { cpuThreads } = engine;
    backend = await openBackend({ device, cpuRuntime, cpuThreads });
    if (isStopping) return await backend.dispose();
    const model = await Promise.race([
      loadModel({
        ...options,
        backend,
        onProgress: (progress) => scope.postMessage({ type: "progress", progress }),
      }),
      Promise.race([backend.lost, backend.uncompiled ?? backend.lost]).then((reason) =>
        Promise.reject(new StartupError(reason, { setting: "device" }))
      ),
    ]);
    const tasks = await DocumentTasks.open(model, { folder: options.model.folder, engine });
    if (isStopping) return await model.dispose();
    loaded = { backend, model, tasks, settingNames: options.settingNames };
    // The loss is reported even if it happened at the very end of loading.
    backend.lost.then((reason) => {
      cancelAll();
      scope.postMessage({ type: "lost", reason });
    });
    const { id, aliases, ownedBy } = options.model;
    const {
      kind,
      dtype,
      contextLength,
      maxModelLength = contextLength,
      maxSequences,
      languages,
      voiceActivity,
      voices,
      noRecordings,
      readsLines,
      takesAudio,
    } = model;
    scope.postMessage({
      type: "ready",
      info: {
        id,
        aliases,
        ownedBy,
        createdSeconds: await readWrittenSeconds(options.model.folder),
        kind,
        dtype,
        backend: backend.kind,
        runtime: backend.runtime,
        adapter: backend.adapter,
        contextLength,
        maxModelLength,
        maxSequences,
        languages,
        voiceActivity,
        voices,
        noRecordings: noRecordings && formatRefusal(noRecordings, options.settingNames),
        readsLines,
        takesAudio,
      },
    });
    prepareRest(loaded);
  } catch (error) {
    // The backend is being freed.
    if (isStopping) return;
    // The message of a StartupError is enough. Of other errors the server only shows the message, so they are logged.
    if (!(error instanceof StartupError)) log.error("loading failed", { error });
    await backend?.dispose();
    scope.postMessage({
      type: "failed",
      reason: formatRefusal(error as Refusal, options.settingNames),
    });
  }
}

/**
 * Prepares the model for its first request, then compiles, one after another, the programs that the first requests do
 * not need.
 */
function prepareRest({ model, backend }: Loaded): void {
  const prepareLater = (work: () => void) =>
    setTimeout(() => void (isStopping || work()), LATER_MS[open.size === 0 ? "idle" : "busy"]);
  const compileNext = () => void (backend.compileNext?.() && prepareLater(compileNext));
  prepareLater(() => {
    // A failure is reported by the request that meets it again.
    model.prepare?.().catch(() => {});
    compileNext();
  });
}

/** Reads when a folder's config.json was written, or the folder itself if it has none, in seconds since 1970. */
async function readWrittenSeconds(folder: string): Promise<number> {
  const { mtime } = await Deno.stat(join(folder, "config.json")).catch(() => Deno.stat(folder));
  return Math.floor((mtime?.getTime() ?? 0) / 1000);
}

/** Ports of requests in progress, each with a function that cancels the request. */
const open = new Map<MessagePort, () => void>();

/**
 * Cancels all requests, because the model is lost. The server tells the clients. Errors that follow are not logged for
 * each request.
 */
function cancelAll(): void {
  for (const cancel of [...open.values()]) cancel();
}

function close(port: MessagePort): void {
  port.close();
  open.delete(port);
  // Deferred until the model is idle, so that no step waits for it.
  collectGarbageLater(() => open.size === 0);
}

function take(task: Task, port: MessagePort): void {
  let end: (() => void) | undefined;
  const cancel = () => {
    end?.();
    backpressure.disable();
    close(port);
  };
  open.set(port, cancel);
  const backpressure = new Backpressure(MAX_UNREAD);
  const emit = async (unnamed: TaskEvent) => {
    const event = nameSetting(unnamed);
    port.postMessage(event, [...listMedia(event)]);
    if (event.type === "done" || event.type === "error") close(port);
    if (isPaced(event)) await backpressure.sent();
  };
  port.onmessage = ({ data }: MessageEvent<ToRequest>) => {
    if (data.type === "taken") backpressure.taken();
    else cancel();
  };
  const fail = (error: unknown) => {
    const known = HearthError.from(error);
    if (known.kind === "inference_failed") {
      log.error("request failed", { requestId: task.requestId, error });
    }
    emit({ type: "error", error: known.toWire() });
  };
  try {
    if (!loaded) throw new HearthError("model_not_loaded", "The model is not loaded.");
    const { model, tasks } = loaded;
    if (task.type === "tokenize" || task.type === "detokenize") {
      const abort = new AbortController();
      end = () => abort.abort();
      answerTokens(model, task, abort.signal).then(emit, (error) => {
        if (!abort.signal.aborted) fail(error);
      });
    } else end = tasks.start(task, emit);
  } catch (error) {
    fail(error);
  }
}

/** Adds to an error's message the user's name for the setting that the error is about. */
function nameSetting(event: TaskEvent): TaskEvent {
  if (event.type !== "error" || loaded === undefined) return event;
  const { setting: _named, ...error } = event.error;
  const message = formatRefusal(event.error, loaded.settingNames);
  return { ...event, error: { ...error, message } };
}

/** Frees all resources. Loading in progress is awaited too: it frees what it allocates meanwhile. */
async function stop(): Promise<void> {
  isStopping = true;
  try {
    await loaded?.tasks.dispose();
    await loaded?.model.dispose();
  } finally {
    await backend?.dispose();
    await loading;
    scope.postMessage({ type: "stopped" });
  }
}

/**
 * Reports an uncaught error, which ends the thread. Before that, frees native memory that only this thread can free.
 */
async function die(event: Event, reason: unknown): Promise<void> {
  event.preventDefault();
  log.error("the worker died", { error: reason });
  cancelAll();
  await backend?.dispose();
  const message = reason instanceof Error ? reason.message : String(reason);
  scope.postMessage({ type: "lost", reason: `the worker died: ${message}` });
}
scope.addEventListener("error", (event) => void die(event, event.error));
scope.addEventListener("unhandledrejection", (event) => void die(event, event.reason));

scope.onmessage = async ({ data: message }) => {
  switch (message.type) {
    case "load":
      startThreadsBy(message.threads);
      countStepsIn(message.steps);
      return await (loading = load(message.options));
    case "request":
      return take(message.task, message.port);
    case "metrics": {
      const metrics = await loaded?.model.metrics.getMetricsAsJSON() ?? [];
      return scope.postMessage({ type: "metrics", id: message.id, metrics });
    }
    case "ping":
      return scope.postMessage({ type: "pong" });
    case "stop":
      return await stop();
  }
};
