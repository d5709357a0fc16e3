/**
 * Gives the model's events for a chat request; shared by all API families that chat.
 *
 * @module
 */
import { log } from "../../../base/log.ts";
import type { ChatRequest } from "../../../wire/chat_request.ts";
import { type InferencePath, requireEndpoint, requireModelName } from "../../../wire/endpoints.ts";
import type { ChatEvent } from "../../../models/task.ts";
import type { ModelInfo } from "../../../worker/protocol.ts";
import { transcribeChat } from "./chat_audio.ts";
import { chatTask } from "./chat_task.ts";
import { isLocal } from "../locality.ts";
import type { AppDeps, Call } from "../route.ts";
import { type TaskEvents, untilAdmitted } from "../task_events.ts";
import { findUnservedBy } from "./served_fields.ts";
import { warn } from "../warnings.ts";

/** A request that was admitted. */
export interface OpenedChat {
  readonly info: ModelInfo;
  readonly events: TaskEvents<ChatEvent>;
}

/**
 * Sends `request`, received at `path`, to the model and waits until it is admitted.
 *
 * @throws {HearthError} when it names another model, the model does not serve the endpoint, or it is invalid as far as
 * known at admission.
 */
export async function openChat(
  request: ChatRequest,
  { call, deps, path, onlyCounts, onlyReads }: {
    readonly call: Call;
    readonly deps: AppDeps;
    readonly path: InferencePath;
    /** Nothing is generated: the prompt's tokens are counted. */
    readonly onlyCounts?: boolean;
    /** Nothing is generated: the prompt is computed, and so kept for requests that begin as it does. */
    readonly onlyReads?: boolean;
  },
): Promise<OpenedChat> {
  const { session, settings } = deps;
  const info = session.requireReady();
  requireModelName(info, request.model);
  requireEndpoint(info, path);
  warn(call, ...findUnservedBy(info, request));
  const { signal } = call.req.raw;
  const requestId = call.get("requestId");
  const options = {
    ...deps,
    info,
    requestId,
    signal,
    isLocal: isLocal(call.req.raw, call.env, settings),
    onTruncated: (message: string) => {
      log.warn("a recording ends early", { requestId, message });
      // The head of a stream was sent before.
      call.header("truncated", "true");
    },
  };
  if (info.kind === "asr") {
    return { info, events: await untilAdmitted(await transcribeChat(request, options)) };
  }
  const task = await chatTask(request, options);
  const generation = onlyReads ? { ...task.options, maxTokens: 0 } : task.options;
  const events = session.stream({ ...task, options: generation, onlyCounts }, { signal });
  return { info, events: await untilAdmitted(events) };
}
