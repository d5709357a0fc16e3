/**
 * Tracks each connection's unfinished responses, and answers input that is not a valid request.
 *
 * @module
 */
import { type Server, type ServerResponse, STATUS_CODES } from "node:http";
import { errorAnswer } from "../../../wire/error_body.ts";
import { HearthError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import type { Duplex } from "node:stream";
import process from "node:process";

/** Makes `server` answer malformed requests with the usual error body. */
export function answerMalformed(server: Server, getAnswers: AnswersOf): void {
  server.on("clientError", (cause: Error & { readonly code?: string }, socket) => {
    // A response in progress cannot be followed by another, and after a reset nobody reads one.
    const hasBegun = [...getAnswers(socket)].some(({ headersSent }) => headersSent);
    if (hasBegun || !socket.writable || cause.code === "ECONNRESET") return void socket.destroy();
    const error = explain(cause);
    const requestId = crypto.randomUUID();
    log.info("could not parse a request", { requestId, code: error.kind });
    socket.end(formatAnswer(error, requestId), () => socket.destroy());
  });
}

/** Explains an error by the code of Node's parser. */
function explain({ code, message }: Error & { readonly code?: string }): HearthError {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new HearthError("headers_too_large", "Path and headers may have at most 16 KiB.");
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new HearthError("request_timeout", "The request's headers did not arrive in time.");
    default: {
      const detail = message.replaceAll(/Parse Error(: )?/g, "");
      return new HearthError(
        "invalid_http",
        `This is not an HTTP/1.1 request, and this port does not serve HTTPS${
          detail && `: ${detail}`
        }.`,
      );
    }
  }
}

/** Formats a raw HTTP response that closes the connection. */
export function formatAnswer(
  error: HearthError,
  requestId: string,
  headers: Readonly<Record<string, string>> = {},
): string {
  const { status, body } = errorAnswer("", error);
  const text = JSON.stringify(body);
  const head = formatHead(status, [
    ["content-type", "application/json"],
    ["content-length", `${new TextEncoder().encode(text).length}`],
    ["x-request-id", requestId],
    ...Object.entries(headers),
    ["connection", "close"],
  ]);
  return head + text;
}

/** Formats the head of a response, including the blank line. */
export function formatHead(status: number, headers: Iterable<readonly [string, string]>): string {
  const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n`;
}

// The unfinished responses of each connection. There may be several: a client may send requests before the last one is
// answered.

/** Returns the unfinished responses of a connection. */
export type AnswersOf = (socket: Duplex) => ReadonlySet<ServerResponse>;

const NONE: ReadonlySet<ServerResponse> = new Set();

/**
 * Tracks the unfinished responses of `server`, and closes all of them when their connection closes. Call it before
 * adding other request listeners, so that they find it up to date.
 */
export function trackAnswers(server: Server): AnswersOf {
  const answers = new WeakMap<Duplex, Set<ServerResponse>>();
  server.on("connection", (socket: Duplex) => {
    const own = new Set<ServerResponse>();
    answers.set(socket, own);
    // `node:http` itself closes only the response that is being written, not those queued behind it.
    socket.once("close", () => process.nextTick(closeAll, own));
  });
  server.on("request", ({ socket }, outgoing) => {
    const own = answers.get(socket)!;
    own.add(outgoing);
    outgoing.once("close", () => own.delete(outgoing));
  });
  return (socket) => answers.get(socket) ?? NONE;
}

function closeAll(answers: ReadonlySet<ServerResponse>): void {
  for (const answer of answers) {
    answer.destroy();
    answer.emit("close");
  }
}
