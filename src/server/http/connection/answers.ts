/**
 * The answers of each connection that are not complete: a client may send requests before the last one is answered.
 *
 * @module
 */
import type { Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import process from "node:process";

/** Gives the incomplete answers of a connection. */
export type AnswersOf = (socket: Duplex) => ReadonlySet<ServerResponse>;

const NONE: ReadonlySet<ServerResponse> = new Set();

/**
 * Tracks those of `server`, and closes all of them when their connection closes. To be called before other listeners to
 * its requests are added, which then find it true.
 */
export function trackAnswers(server: Server): AnswersOf {
  const answers = new WeakMap<Duplex, Set<ServerResponse>>();
  server.on("connection", (socket: Duplex) => {
    const own = new Set<ServerResponse>();
    answers.set(socket, own);
    // `node:http` itself closes the one that has the connection, not those that wait for it.
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
