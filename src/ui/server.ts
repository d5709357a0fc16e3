/**
 * Calls to the server that this page came from, and a hook with which components run them. The API key, if there is
 * one, is only kept in memory. Also loads the parts of the page that are rarely needed: separate bundles next to the
 * page's script.
 *
 * @module
 */
import { useEffect, useRef, useState } from "preact/hooks";

/** The answer of `GET /info`. */
export interface ServerInfo {
  readonly id: string;
  readonly kind: "text" | "vision" | "ocr" | "asr" | "tts" | "matting" | "embedding" | "rerank";
  readonly dtype: string;
  readonly device: "webgpu" | "cpu";
  readonly adapter: string;
  readonly context_length: number | null;
  readonly max_sequences: number;
  /** Whether messages of a chat may hold sounds. */
  readonly takes_audio: boolean;
  readonly takes_reference_voice: boolean;
  readonly version: string;
}

/** One of several models behind one address, as `GET /v1/models` lists them. */
export interface ListedModel {
  readonly id: string;
  /** The kind; absent if the model has never been loaded and its kind is not known otherwise. */
  readonly kind?: ServerInfo["kind"];
  readonly status: { readonly value: string; readonly failed?: boolean };
}

/** The properties that every kind's page gets. */
export interface PageProps {
  readonly info: ServerInfo;
  /** All models behind a router; empty if the server has one model. */
  readonly models: readonly ListedModel[];
}

/** Thrown when the server refuses a request, or (`status` 0) when the connection fails. */
export class ServerError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

let apiKey: string | undefined;

/** Sends this API key with every request from now on. */
export function setApiKey(key: string): void {
  apiKey = key;
}

/** Whether requests have an API key. Then the requests that are shown as code must have one too. */
export function hasApiKey(): boolean {
  return apiKey !== undefined;
}

/** Converts a path of the API to an absolute address. */
export function resolveAddress(path: string): string {
  return new URL(path.replace(/^\//, ""), document.baseURI).href;
}

/**
 * Sends a request.
 *
 * @throws {ServerError} for any status but 2xx. An abort is rethrown.
 */
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (apiKey !== undefined) headers.set("authorization", `Bearer ${apiKey}`);
  let response: Response;
  try {
    response = await fetch(resolveAddress(path), { ...init, headers });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ServerError(0, "The server does not answer. Check that it is still running.");
  }
  if (!response.ok) throw new ServerError(response.status, await readReason(response));
  return response;
}

/** Lists the models behind a router. A server with one model lists it without a status: the result is then empty. */
export async function listModels(): Promise<readonly ListedModel[]> {
  const { data } = await (await call("v1/models")).json() as { data: Partial<ListedModel>[] };
  return data.filter((model): model is ListedModel => model.status !== undefined);
}

/** Sends a POST request with a JSON body. */
export function post(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return call(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
}

/**
 * Opens a WebSocket. The API key is sent as a sub-protocol, since browsers cannot send headers with a WebSocket.
 *
 * @throws {ServerError} when the server refuses it.
 */
export function openSocket(path: string): Promise<WebSocket> {
  const keys = apiKey === undefined ? [] : [`openai-insecure-api-key.${apiKey}`];
  const socket = new WebSocket(resolveAddress(path).replace(/^http/, "ws"), ["realtime", ...keys]);
  return new Promise((resolve, reject) => {
    socket.onopen = () => resolve(socket);
    socket.onerror = () =>
      reject(new ServerError(0, "The server refused the connection for live transcription."));
  });
}

/** Reads the error message of a response: nested, flat, or in the format of the health endpoint. */
async function readReason(response: Response): Promise<string> {
  const body: unknown = await response.json().catch(() => undefined);
  return findErrorText(body) ?? `The server answered ${response.status}.`;
}

function findErrorText(body: unknown): string | undefined {
  const { error } = (body ?? {}) as { error?: string | { message?: string } };
  const message = typeof error === "string" ? error : error?.message;
  // Removes the path within the request, which means nothing to a user who dropped a file.
  return message?.replace(/^(?:messages\[\d+\]\.content\[\d+\]|file|image): /, "");
}

/** The message when the connection is lost during an answer. */
const CONNECTION_LOST =
  "The connection to the server was lost during the answer. Check that it is still running.";

/** Messages for users, by the server's error messages that they replace. */
const FRIENDLY_MESSAGES: Readonly<Record<string, string>> = {
  "shutting down":
    "The server was stopped during the answer. Start it again, then repeat the request.",
};

/**
 * Yields the bytes of a response as they arrive.
 *
 * @throws {ServerError} when the connection is lost. An abort is rethrown.
 */
export async function* readBytes(response: Response): AsyncGenerator<Uint8Array> {
  // Safari's streams are not iterable.
  const reader = response.body!.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ServerError(0, CONNECTION_LOST);
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * Yields the data of a response's server-sent events.
 *
 * @throws {ServerError} when an event holds an error, or the connection is lost.
 */
export async function* readEvents(response: Response): AsyncGenerator<unknown> {
  const decoder = new TextDecoder();
  let pending = "";
  for await (const bytes of readBytes(response)) {
    const lines = (pending + decoder.decode(bytes, { stream: true })).split("\n");
    pending = lines.pop()!;
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice(5).trim();
      if (data === "[DONE]") return;
      const event: unknown = JSON.parse(data);
      const message = findErrorText(event);
      if (message !== undefined) throw new ServerError(500, FRIENDLY_MESSAGES[message] ?? message);
      yield event;
    }
  }
}

/** The parts, by the names of their files in `lazy/`. */
interface Parts {
  readonly code_colours: typeof import("./lazy/code_colours.ts");
  readonly formulas: typeof import("./lazy/formulas.ts");
  readonly mcp: typeof import("./lazy/mcp.ts");
}

const loading = new Map<keyof Parts, Promise<unknown>>();

/** Loads a part once. If that fails, the next call tries again. */
export function loadPart<Name extends keyof Parts>(name: Name): Promise<Parts[Name]> {
  const known = loading.get(name);
  if (known !== undefined) return known as Promise<Parts[Name]>;
  // The address is in a variable so that the bundler does not resolve the import.
  const address = new URL(`${name}.js`, import.meta.url).href;
  const part = import(address) as Promise<Parts[Name]>;
  loading.set(name, part);
  part.catch(() => loading.delete(name));
  return part;
}

/** The state of a component's asynchronous work, and functions that start and stop it. */
interface Work {
  readonly isBusy: boolean;
  readonly failure: string | undefined;
  /** Duration of the last run. */
  readonly tookMs: number | undefined;
  /** Aborts the running request and starts `act`. */
  readonly start: (act: (signal: AbortSignal) => Promise<void>) => Promise<void>;
  readonly stop: () => void;
}

/** Lets the calling component do asynchronous work, which is aborted when the component unmounts. */
export function useWork(): Work {
  const [state, setState] = useState<Pick<Work, "isBusy" | "failure" | "tookMs">>({
    isBusy: false,
    failure: undefined,
    tookMs: undefined,
  });
  const current = useRef<AbortController | undefined>(undefined);
  const stop = () => current.current?.abort();
  useEffect(() => stop, []);
  return {
    ...state,
    stop,
    start: async (act) => {
      stop();
      const controller = current.current = new AbortController();
      const { signal } = controller;
      setState({ isBusy: true, failure: undefined, tookMs: undefined });
      const startedMs = performance.now();
      let failure: string | undefined;
      try {
        await act(signal);
      } catch (error) {
        if (!signal.aborted) failure = (error as Error).message;
      }
      if (current.current !== controller) return;
      const tookMs = failure === undefined ? performance.now() - startedMs : undefined;
      setState({ isBusy: false, failure, tookMs });
    },
  };
}
