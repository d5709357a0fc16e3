/**
 * Where a session is, and what is told of one that is not ready.
 *
 * @module
 */
import type { LoadProgress } from "../models/progress.ts";
import type { ModelInfo } from "../worker/protocol.ts";

/** Where a session is. */
export type SessionState =
  | { readonly phase: "loading"; readonly progress?: LoadProgress | undefined }
  | { readonly phase: "ready"; readonly info: ModelInfo }
  /** Loading failed, or the worker was lost too often. */
  | { readonly phase: "failed"; readonly reason: string }
  | { readonly phase: "stopping" };

/** Says why there is no model, as health and every refused request tell it. */
export function explainNotReady(state: Exclude<SessionState, { phase: "ready" }>): string {
  switch (state.phase) {
    case "stopping":
      return "shutting down";
    case "failed":
      return `The model is not initialized: ${state.reason}`;
    case "loading": {
      if (state.progress === undefined) return "The model is not initialized yet.";
      const { what, fraction } = state.progress;
      return `loading: ${what}${fraction === undefined ? "" : ` ${Math.floor(fraction * 100)}%`}`;
    }
  }
}
