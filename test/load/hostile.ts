/**
 * Requests of callers that once starved or froze a server; each function sends one.
 *
 * @module
 */
import type { SmallRequest } from "./small_requests.ts";

/** The server under attack, and a small request that its model answers. */
export interface Target {
  readonly url: string;
  readonly small: SmallRequest;
}

/** Sends a hostile request. @returns the status, or `closed` or `timeout`. */
export type Hostile = (target: Target) => Promise<string>;

const encoder = new TextEncoder();
const PATIENCE_MS = 30_000;
const JSON_TYPE = { "content-type": "application/json" };

/** Posts a body. @returns the status, or `closed` or `timeout`. */
export async function post(
  url: string,
  body: BodyInit,
  headers: Readonly<Record<string, string>> = JSON_TYPE,
): Promise<string> {
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const response = await fetch(url, { method: "POST", body, headers, signal });
    await response.body?.cancel();
    return String(response.status);
  } catch (error) {
    return (error as Error).name === "TimeoutError" ? "timeout" : "closed";
  }
}

/** Posts to the endpoint that the model serves. The body is created once per request kind. */
function toModel(make: (small: SmallRequest) => string): Hostile {
  const bodies = new Map<string, Uint8Array<ArrayBuffer>>();
  return async ({ url, small }) => {
    const body = bodies.get(small.model) ?? encoder.encode(make(small));
    bodies.set(small.model, body);
    return await post(url + small.path, body);
  };
}

/** Opens a raw connection and closes it after `use`. */
export async function raw(
  url: string,
  use: (connection: Deno.TcpConn) => Promise<void>,
): Promise<string> {
  const { hostname, port } = new URL(url);
  try {
    using connection = await Deno.connect({ hostname, port: Number(port) });
    await use(connection);
  } catch {
    // The server may close the connection first.
  }
  return "closed";
}

/** The head of a JSON request to the model with a body of `length` bytes. */
export function head({ url, small }: Target, length: number): Uint8Array {
  return encoder.encode(
    `POST ${small.path} HTTP/1.1\r\nHost: ${new URL(url).host}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`,
  );
}

/** Waits for the given time. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A request with `content` in the endpoint's text field. */
function withText({ path, model }: SmallRequest, content: string): string {
  if (path.endsWith("embeddings")) return JSON.stringify({ truncate: true, input: content });
  if (path.endsWith("rerank")) {
    return JSON.stringify({ truncate: true, query: "snow", documents: [content] });
  }
  return JSON.stringify({ model, input: content, messages: [{ role: "user", content }] })
    .replace(path.endsWith("speech") ? /,"messages".*\]/ : /"input":.*?",/, "");
}

/** Requests that are cheap for both sides; most of the load consists of these. */
export const LIGHT: Readonly<Record<string, Hostile>> = {
  "broken JSON": toModel(() => '{"messages":[{]}'),
  "wrong types": toModel(() => '{"model":5,"messages":"x","input":{},"documents":7}'),
  "unknown path": ({ url }) => post(`${url}/v1/nope`, "{}", {}),
  "no HTTP": ({ url }) =>
    raw(url, async (tcp) => void await tcp.write(encoder.encode("\0\r\n\r\n"))),
  "a head that never ends": ({ url }) =>
    raw(url, async (tcp) => {
      await tcp.write(encoder.encode("POST / HTTP/1.1\r\nX: "));
      await pause(20);
    }),
  "a body that stops": (target) =>
    raw(target.url, async (tcp) => {
      await tcp.write(head(target, 10_000));
      await tcp.write(encoder.encode('{"messages":['));
      await pause(20);
    }),
  "an idle connection": ({ url }) => raw(url, () => pause(50)),
};

/** Requests of several megabytes. */
export const HEAVY: Readonly<Record<string, Hostile>> = {
  "8 MB of text that claims to be media": toModel((small) =>
    withText(small, `data:${"snow ".repeat(1_600_000)}`)
  ),
  "4.9 MB of text, to be cut where it may be": toModel((small) =>
    withText(small, "snow ".repeat(980_000))
  ),
  "120,000 messages": toModel(({ model }) =>
    JSON.stringify({
      model,
      messages: Array(120_000).fill({ role: "user", content: "" }),
    })
  ),
  "300,000 entries of logit_bias": toModel(({ model }) =>
    `{"model":"${model}","messages":[{"role":"user","content":"x"}],"logit_bias":{${
      Array.from({ length: 300_000 }, (_, id) => `"${id}":1`).join()
    }}}`
  ),
  "400,000 unknown fields": toModel(({ body }) =>
    `{${Array.from({ length: 400_000 }, (_, n) => `"k${n}":1`).join()},${String(body).slice(1)}`
  ),
  "150,000 parts": toModel(({ model }) =>
    JSON.stringify({
      model,
      messages: [{ role: "user", content: Array(150_000).fill({ type: "text", text: "" }) }],
    })
  ),
};
