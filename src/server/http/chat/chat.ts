/**
 * `POST /chat/completions`.
 *
 * @module
 */
import { ChatRequest, readTopLogprobs, wantsRunningUsage } from "../../../wire/chat_request.ts";
import {
  ChatChunk,
  ChatCompletion,
  makeCompletionHead,
  makeEmptyChunk,
} from "../../../wire/chat_response.ts";
import { chooseReasoningPosition, completeChat, createChatFormat } from "./chat_answer.ts";
import { openChat } from "./open_chat.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route } from "../route.ts";
import { formatEvent, streamEvents } from "../sse.ts";
import { listHostedTools, wantsFunctionCall } from "./chat_task.ts";
import { readRequest, warnOfTools } from "../requests.ts";

const PATH = "/chat/completions";

/** The endpoint for chat completions, whole or streamed. */
export function chatRoute(deps: AppDeps): Route {
  return {
    method: "POST",
    path: PATH,
    operation: {
      summary: "Continue a conversation",
      description:
        "With `stream` the answer comes as server-sent events: chunks, then `[DONE]`. Its headers are " +
        "sent when the request is admitted. An error after that is sent as an event, " +
        "without `[DONE]`.",
      request: ChatRequest,
      requestExamples: CHAT_EXAMPLES,
      response: {
        description: "The completion",
        content: { "application/json": ChatCompletion, "text/event-stream": ChatChunk },
      },
      errors: [...JSON_ERRORS, "invalid_media", "context_length_exceeded", "model_not_found"],
    },
    handle: (call) => answerChat(call, deps),
  };
}

async function answerChat(call: Call, deps: AppDeps): Promise<Response> {
  const request = await readRequest(call, deps, { schema: ChatRequest, unserved: "text" });
  warnOfTools(call, listHostedTools(request));
  const { info, events } = await openChat(request, { call, deps, path: PATH });
  const answer = {
    head: makeCompletionHead(info.id),
    reasoningPosition: chooseReasoningPosition(request, deps.settings.reasoningField),
    wantsFunctionCall: wantsFunctionCall(request),
  };
  if (!request.stream) {
    return call.json(
      await completeChat(events, {
        ...answer,
        n: request.n ?? 1,
        hasLogprobs: readTopLogprobs(request) !== undefined,
        numPromptTop: request.prompt_logprobs ?? undefined,
      }),
    );
  }
  const format = createChatFormat({
    ...answer,
    includeUsage: request.stream_options?.include_usage === true,
    hasRunningUsage: wantsRunningUsage(request),
  });
  const emptyEvent = formatEvent(JSON.stringify(makeEmptyChunk(answer.head)));
  return streamEvents(events, format, { requestId: call.get("requestId"), emptyEvent });
}

// Example chat requests for the API's description. Each of them works with the built-in model that it names.

/** A PNG of a red circle. */
const CIRCLE =
  "iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQMAAACQp+OdAAAABlBMVEX////cHh7/Hx2WAAAAbUlEQVR42mNgoCWQ/wFl" +
  "/P8PoZn//z8AZvD///8BouT/f4ii+v///0HVQlQzghgNyAxmEAOknx3EeIDM4AcxPiAz5EGMH1gZ9iDGH1ow8FiK6UJMX8A9iOl3eLAg" +
  "AgoedPDAhAcvPMARUUAbAACTy7xBZ3GgqwAAAABJRU5ErkJggg==";

/** Examples, by their titles. */
export const CHAT_EXAMPLES: Readonly<Record<string, unknown>> = {
  "a question": {
    model: "hearth-demo-chat",
    messages: [{ role: "user", content: "What is the capital of France?" }],
  },
  "a question about an image": {
    model: "hearth-demo-vision",
    messages: [{
      role: "user",
      content: [
        { type: "image_url", image_url: { url: `data:image/png;base64,${CIRCLE}` } },
        { type: "text", text: "What is this?" },
      ],
    }],
    temperature: 0,
  },
};
