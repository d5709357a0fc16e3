/**
 * The answers of each connection that are not complete: a client may send requests before the last one is answered.
 *
 * @module
 */
import type { Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** Gives the incomplete answers of a connection. */
export type AnswersOf = (socket: Duplex) => ReadonlySet<ServerResponse>;

const NONE: ReadonlySet<ServerResponse> = new Set();

/** Tracks those of `server`. To be called before other listeners to its requests are added, which then find it true. */
export function trackAnswers(server: Server): AnswersOf {
  const answers = new WeakMap<Duplex, Set<ServerResponse>>();
  server.on("request", ({ socket }, outgoing) => {
    const own = answers.get(socket) ?? new Set();
    answers.set(socket, own.add(outgoing));
    outgoing.once("close", () => own.delete(outgoing));
  });
  return (socket) => answers.get(socket) ?? NONE;
}
