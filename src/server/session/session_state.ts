/**
 * The state of a session, and why it is not ready.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import type { LoadProgress } from "../../models/model.ts";
import type { ModelInfo } from "../../worker/protocol.ts";

/** The state of a session. */
export type SessionState =
  | { readonly phase: "loading"; readonly progress?: LoadProgress | undefined }
  | { readonly phase: "ready"; readonly info: ModelInfo }
  /** Loading failed, or the worker was lost too often. */
  | { readonly phase: "failed"; readonly reason: string }
  /** The model's files were changed after it was loaded. The reason reveals nothing that callers must not know. */
  | { readonly phase: "failed"; readonly reason: string; readonly isChanged: true }
  | { readonly phase: "stopping" };

/** The error for requests that are refused or ended because no model is ready. */
export function notReadyError(state: Exclude<SessionState, { phase: "ready" }>): HearthError {
  const kind = state.phase === "stopping" ? "shutting_down" : "model_not_loaded";
  return new HearthError(kind, explain(state));
}

function explain(state: Exclude<SessionState, { phase: "ready" }>): string {
  switch (state.phase) {
    case "stopping":
      return "shutting down";
    case "failed":
      if ("isChanged" in state) return state.reason;
      return `The model is not initialized: ${state.reason}`;
    case "loading": {
      if (state.progress === undefined) return "The model is not initialized yet.";
      const { what, fraction } = state.progress;
      return `loading: ${what}${fraction === undefined ? "" : ` ${Math.floor(fraction * 100)}%`}`;
    }
  }
}
