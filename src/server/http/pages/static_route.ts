/**
 * A route that serves one text, compressed where the client takes that.
 *
 * @module
 */
import type { Call, Route } from "../route.ts";

/**
 * @param options.policy the Content-Security-Policy.
 * @param options.read called at the first request.
 */
export function staticRoute(
  path: string,
  { type, policy, read }: {
    readonly type: string;
    readonly policy: string | ((call: Call) => string);
    readonly read: () => string | Promise<string>;
  },
): Route {
  let packed: Promise<Uint8Array<ArrayBuffer>> | undefined;
  const headersFor = (call: Call) => ({
    "content-type": `${type}; charset=utf-8`,
    "content-security-policy": typeof policy === "string" ? policy : policy(call),
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    "vary": "accept-encoding",
  });
  return {
    method: "GET",
    path,
    handle: async (call) => {
      const headers = headersFor(call);
      const takesGzip = /\bgzip\b/.test(call.req.header("accept-encoding") ?? "");
      if (!takesGzip) return call.body(await read(), 200, headers);
      packed ??= Promise.try(read).then(gzip);
      return call.body(await packed, 200, { ...headers, "content-encoding": "gzip" });
    },
  };
}

async function gzip(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return await new Response(stream).bytes();
}
