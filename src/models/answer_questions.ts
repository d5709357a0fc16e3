/**
 * The worker's side of `WorkerRpc`.
 *
 * @module
 */
import { collectGarbageLater } from "../collect_garbage.ts";
import { HearthError } from "../errors.ts";
import type { WorkerFailure } from "./worker_pool.ts";

/** An answer, and the memory transferred with it. */
export interface ThreadAnswer<Answer> {
  readonly message: Answer;
  readonly transfer?: Transferable[];
}

/**
 * Answers each message to this thread with one message. Errors of `answer` are sent too: a `HearthError` as refusal of
 * the request, any other as failure of the worker.
 */
export function answerQuestions<Question, Answer>(
  answer: (question: Question) => Promise<ThreadAnswer<Answer>>,
): void {
  const scope = globalThis as unknown as {
    postMessage(message: Answer | WorkerFailure, transfer?: Transferable[]): void;
    onmessage: ((event: MessageEvent<Question>) => void) | null;
  };
  scope.onmessage = async ({ data: question }) => {
    try {
      const { message, transfer } = await answer(question);
      scope.postMessage(message, transfer);
    } catch (error) {
      scope.postMessage(
        error instanceof HearthError
          ? { type: "refused", error: error.toWire() }
          : { type: "failed", reason: error instanceof Error ? error.message : String(error) },
      );
    }
    collectGarbageLater();
  };
}
