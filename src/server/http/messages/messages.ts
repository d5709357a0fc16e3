/**
 * `POST /messages` and `POST /messages/count_tokens`: chat through Anthropic's Messages API.
 *
 * @module
 */
import { CountTokensRequest, MessagesRequest } from "../../../wire/messages_request.ts";
import { MessageEvent, MessageObject, TokenCount } from "../../../wire/messages_response.ts";
import type { ChatEvent } from "../../../models/task.ts";
import { getInlineMedia } from "../body/inline_media.ts";
import { ownParam, toChatRequest, withTexts } from "./messages_chat.ts";
import { MessageBuilder } from "./messages_events.ts";
import { openChat, type OpenedChat } from "../chat/open_chat.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route } from "../route.ts";
import { formatNamedEvent, streamEvents } from "../sse.ts";
import { inOwnWords, newId, readRequest, warnOfTools } from "../requests.ts";
import { listHostedTools } from "./messages_tools.ts";
import { lastEvent, successes } from "../../session/task_stream.ts";

const PATH = "/messages";
const EXAMPLE = { model: "", messages: [{ role: "user", content: "What does a cow say?" }] };
const ERRORS = [...JSON_ERRORS, "invalid_media", "model_not_found"] as const;

/** The endpoints of the Messages API. */
export function messagesRoutes(deps: AppDeps): Route[] {
  return [{
    method: "POST",
    path: PATH,
    operation: {
      summary: "Continue a conversation through Anthropic's Messages API",
      description: "With `stream` the answer comes as typed events, from `message_start` to " +
        "`message_stop`. Errors have Anthropic's shape.",
      request: MessagesRequest,
      requestExamples: { "a question": { ...EXAMPLE, max_tokens: 64 } },
      response: {
        description: "The message",
        content: { "application/json": MessageObject, "text/event-stream": MessageEvent },
      },
      errors: [...ERRORS, "context_length_exceeded"],
    },
    handle: (call) => createMessage(call, deps),
  }, {
    method: "POST",
    path: `${PATH}/count_tokens`,
    operation: {
      summary: "Count the tokens of a Messages request",
      request: CountTokensRequest,
      requestExamples: { "a question": EXAMPLE },
      response: { description: "The count", content: TokenCount },
      errors: ERRORS,
    },
    handle: (call) => countTokens(call, deps),
  }];
}

async function createMessage(call: Call, deps: AppDeps): Promise<Response> {
  const request = await readRequest(call, deps, { schema: MessagesRequest, unserved: "message" });
  warnOfTools(call, listHostedTools(request));
  const onlyReads = request.max_tokens === 0;
  const { info, events } = await open(request, { call, deps, path: PATH, onlyReads });
  const builder = new MessageBuilder({ id: newId("msg"), model: info.id });
  if (request.stream) {
    const format = (event: ChatEvent) => builder.push(event).map(formatNamedEvent).join("");
    const emptyEvent = formatNamedEvent({ type: "ping" });
    return streamEvents(events, format, { requestId: call.get("requestId"), emptyEvent });
  }
  for await (const event of successes(events)) builder.push(event);
  return call.json(builder.message);
}

async function open(
  request: MessagesRequest | CountTokensRequest,
  options: Parameters<typeof openChat>[1],
): Promise<OpenedChat> {
  try {
    const media = getInlineMedia(options.call.req.raw.signal);
    const read = media === undefined
      ? request
      : withTexts(request, (text) => media.decodeText(text));
    return await openChat(toChatRequest(read), options);
  } catch (error) {
    throw inOwnWords(error, (param) => ownParam(param, request));
  }
}

async function countTokens(call: Call, deps: AppDeps): Promise<Response> {
  const request = await readRequest(call, deps, { schema: CountTokensRequest });
  const path = `${PATH}/count_tokens` as const;
  const { events } = await open(request, { call, deps, path, onlyCounts: true });
  const { usage } = await lastEvent(events);
  return call.json({ input_tokens: usage.promptTokens });
}
