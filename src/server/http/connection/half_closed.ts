/**
 * Clients that half-close the connection after the request (`shutdown(SHUT_WR)`), and still read the answer.
 *
 * @module
 */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { AnswersOf } from "./answers.ts";

/**
 * A half-closed client looks like one that is gone. Only writing tells them apart: to a client that is gone the second
 * write fails. So interim responses (RFC 9110, 15.2) are sent, which clients ignore.
 */
const PROBE_AFTER_MS = [0, 100, 500, 2_000];
const PROBE_EVERY_MS = 5_000;
/** HTTP/1.0 has no interim responses: its clients get what is answered so soon. Most are gone, as proxies that hang up. */
const BLIND_MS = 1_000;

/** Makes `server` answer half-closed clients, and drop those that are gone. */
export function allowHalfClosed(server: Server, getAnswers: AnswersOf): void {
  // Node's own option, missing from its types.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  server.on("connection", (socket: Socket) => {
    socket.once("end", () => {
      // Without an answer under way there is nothing to wait for.
      if (getAnswers(socket).size === 0) socket.end();
    });
  });
  server.on("request", (incoming, outgoing) => {
    const { socket, httpVersion } = incoming;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const probe = (round: number) => {
      // The rest of a body that is not complete can never come.
      if (!incoming.complete) return void socket.destroy();
      if (httpVersion === "1.0") {
        timer = setTimeout(() => socket.destroy(), BLIND_MS);
        return;
      }
      // Once an answer has begun, its own writes fail.
      if (!outgoing.headersSent) outgoing.writeProcessing();
      timer = setTimeout(() => probe(round + 1), PROBE_AFTER_MS[round + 1] ?? PROBE_EVERY_MS);
    };
    const onEnd = () => probe(0);
    if (socket.readableEnded) onEnd();
    else socket.once("end", onEnd);
    outgoing.once("close", () => {
      clearTimeout(timer);
      socket.off("end", onEnd);
      const isLast = getAnswers(socket).size === 0;
      if (isLast && socket.readableEnded && !socket.destroyed) socket.end();
    });
  });
}
