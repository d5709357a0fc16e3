/**
 * Calls to the server that this page came from. The API key, where there is one, lives in this module's memory alone.
 *
 * @module
 */

/** The answer of `GET /info`. */
export interface ServerInfo {
  readonly id: string;
  readonly kind: "text" | "vision" | "ocr" | "asr" | "tts" | "matting" | "embedding" | "rerank";
  readonly dtype: string;
  readonly device: "webgpu" | "cpu";
  readonly adapter: string;
  readonly context_length: number | null;
  readonly max_sequences: number;
  readonly takes_reference_voice: boolean;
  readonly version: string;
}

/** The properties of every kind's page. */
export interface PageProps {
  readonly info: ServerInfo;
}

/** A request that the server refused, or could not be sent (`status` 0). */
export class ServerError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

let apiKey: string | undefined;

/** Sends this key with every request from now on. */
export function useApiKey(key: string): void {
  apiKey = key;
}

/** Whether requests carry a key, so that examples of requests must too. */
export function hasApiKey(): boolean {
  return apiKey !== undefined;
}

/** The absolute address of a path of the API. */
export function addressOf(path: string): string {
  return new URL(path.replace(/^\//, ""), document.baseURI).href;
}

/** @throws {ServerError} for any answer but 2xx. An abort is rethrown. */
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (apiKey !== undefined) headers.set("authorization", `Bearer ${apiKey}`);
  let response: Response;
  try {
    response = await fetch(addressOf(path), { ...init, headers });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ServerError(0, "The server does not answer. Is it still running?");
  }
  if (!response.ok) throw new ServerError(response.status, await reasonOf(response));
  return response;
}

/** A POST with a JSON body. */
export function post(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return call(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
}

/** Errors are nested, flat, or in the form of health. */
async function reasonOf(response: Response): Promise<string> {
  const body: unknown = await response.json().catch(() => undefined);
  return errorText(body) ?? `The server answered ${response.status}.`;
}

function errorText(body: unknown): string | undefined {
  const { error } = (body ?? {}) as { error?: string | { message?: string } };
  return typeof error === "string" ? error : error?.message;
}

/**
 * The data of a stream's server-sent events, up to `[DONE]`.
 *
 * @throws {ServerError} when an event holds an error.
 */
export async function* readEvents(response: Response): AsyncGenerator<unknown> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (pending + value).split("\n");
      pending = lines.pop()!;
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        const event: unknown = JSON.parse(data);
        const message = errorText(event);
        if (message !== undefined) throw new ServerError(500, message);
        yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
