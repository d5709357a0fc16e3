/**
 * The link of a model's process to the router that started it.
 *
 * @module
 */
import { type ChildReport, ROUTER_VARIABLE } from "../router/child_report.ts";
import type { Session } from "../server/session/session.ts";
import { printMessage } from "./print.ts";

/** Tells the router how the model fares, and hears when it is to stop. */
export class RouterLink {
  private constructor() {}

  /** `undefined` for a server that no router started. */
  static find(): RouterLink | undefined {
    return Deno.env.get(ROUTER_VARIABLE) === undefined ? undefined : new RouterLink();
  }

  /** Calls `listener` when the router closes its end of standard input, or was killed. */
  onEnd(listener: () => void): void {
    Deno.stdin.readable.pipeTo(new WritableStream()).then(listener, listener);
  }

  report(report: ChildReport): void {
    printMessage(JSON.stringify(report));
  }

  /** Reports once the model is ready; if it cannot be loaded, or not again, reports why and calls `onFailed`. */
  follow(session: Session, onFailed: () => void): void {
    const look = () => {
      const { state } = session;
      if (state.phase === "ready") {
        const { kind, contextLength, maxModelLength = contextLength } = state.info;
        this.report({ type: "ready", kind, contextLength: maxModelLength });
      }
      if (state.phase !== "failed") return;
      this.report({ type: "failed", reason: state.reason });
      onFailed();
    };
    session.onStateChange(look);
    look();
  }
}
