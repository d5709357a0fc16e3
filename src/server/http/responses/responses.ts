/**
 * `/responses`: chat through OpenAI's Responses API. A response may continue an earlier one that is stored.
 *
 * @module
 */
import { type InputItem, ResponsesRequest } from "../../../wire/responses_request.ts";
import {
  DeletedResponse,
  InputItemList,
  InputTokenCount,
  ResponseEvent,
  ResponseObject,
} from "../../../wire/responses_response.ts";
import { HearthError } from "../../../base/errors.ts";
import type { ChatEvent } from "../../../models/task.ts";
import { getInlineMedia } from "../body/inline_media.ts";
import { openChat, type OpenedChat } from "../chat/open_chat.ts";
import { planTruncations, ResponseStore, type StoredItem } from "./response_store.ts";
import {
  listHostedTools,
  mapMedia,
  toChatRequest,
  toClientParam,
  toItems,
} from "./responses_chat.ts";
import { newId, readRequest, renameParam, warn, warnOfTools } from "../requests.ts";
import { ResponseBuilder } from "./responses_events.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route } from "../route.ts";
import { formatNamedEvent, streamEvents } from "../sse.ts";
import { requireSuccess, waitForDone } from "../../session/task_stream.ts";

const PATH = "/responses";
const INPUT_TOKENS_PATH = "/responses/input_tokens";

/** Responses to requests with more bytes of media are not stored, because media are stored as text. */
const MAX_KEPT_MEDIA_BYTES = 16 * 2 ** 20;

const ERRORS = [
  ...JSON_ERRORS,
  "invalid_media",
  "context_length_exceeded",
  "model_not_found",
  "not_found",
] as const;
const EXAMPLE = { model: "", input: "What is the capital of France?" };

/** The endpoints of the Responses API, which share one store. */
export function responsesRoutes(deps: AppDeps): Route[] {
  const { maxStoredResponses: maxResponses, storedResponsesBytes: maxBytes } = deps.settings;
  const store = new ResponseStore({ maxResponses, maxBytes });
  const missing = { errors: ["not_found" as const] };
  return [{
    method: "POST",
    path: PATH,
    operation: {
      summary: "Continue a conversation through OpenAI's Responses API",
      description: "With `stream` the answer comes as typed events, from `response.created` to " +
        "`response.completed`, `response.incomplete` or `response.failed`.",
      request: ResponsesRequest,
      requestExamples: { "a question": EXAMPLE },
      response: {
        description: "The response",
        content: { "application/json": ResponseObject, "text/event-stream": ResponseEvent },
      },
      errors: ERRORS,
    },
    handle: (call) => createResponse(call, { deps, store }),
  }, {
    method: "POST",
    path: INPUT_TOKENS_PATH,
    operation: {
      summary: "Count the tokens of the prompt of a response",
      request: ResponsesRequest,
      requestExamples: { "a question": EXAMPLE },
      response: { description: "The count", content: InputTokenCount },
      errors: ERRORS,
    },
    handle: (call) => countInputTokens(call, { deps, store }),
  }, {
    method: "GET",
    path: `${PATH}/:id`,
    operation: {
      summary: "A stored response",
      response: { description: "The response", content: ResponseObject },
      errors: ["invalid_value", "not_found"],
    },
    handle: (call) => {
      const { response } = store.get(call.req.param("id")!, { owner: call.get("keyLabel") });
      if (call.req.query("stream") !== "true") return call.json(response);
      throw new HearthError(
        "invalid_value",
        'stream: want false, saw "true": a stored response cannot be streamed.',
        { param: "stream" },
      );
    },
  }, {
    method: "DELETE",
    path: `${PATH}/:id`,
    operation: {
      summary: "Delete a stored response",
      response: { description: "Done", content: DeletedResponse },
      ...missing,
    },
    handle: (call) => {
      const { response: { id } } = store.get(call.req.param("id")!, {
        owner: call.get("keyLabel"),
      });
      store.delete(id);
      return call.json({ id, object: "response" as const, deleted: true as const });
    },
  }, {
    method: "GET",
    path: `${PATH}/:id/input_items`,
    operation: {
      summary: "The input items of a stored response",
      response: { description: "The items", content: InputItemList },
      ...missing,
    },
    handle: (call) => {
      const data = store.get(call.req.param("id")!, { owner: call.get("keyLabel") }).input
        .map(toClientItem);
      if (call.req.query("order") !== "asc") data.reverse();
      const [first_id = null, last_id = null] = [data[0]?.id, data.at(-1)?.id];
      return call.json({ object: "list" as const, data, first_id, last_id, has_more: false });
    },
  }];
}

/** Returns an item as the client sent it, with its id. */
function toClientItem(item: StoredItem): StoredItem {
  return item.type === "hosted" ? { ...item.item, id: item.id } as unknown as StoredItem : item;
}

interface Endpoint {
  readonly deps: AppDeps;
  readonly store: ResponseStore;
}

/** A request, its input without the items of earlier responses, and the chat that answers it. */
interface OpenedResponse extends OpenedChat {
  readonly request: ResponsesRequest;
  readonly input: readonly StoredItem[];
  /** Whether the request has so many bytes of media that its response is not stored. */
  readonly hasLargeMedia: boolean;
}

async function openResponse(
  call: Call,
  { deps, store, onlyCounts = false }: Endpoint & { readonly onlyCounts?: boolean },
): Promise<OpenedResponse> {
  const request = await readRequest(call, deps, { schema: ResponsesRequest, unserved: "response" });
  const media = getInlineMedia(call.req.raw.signal);
  const hasLargeMedia = (media?.numBytes ?? 0) > MAX_KEPT_MEDIA_BYTES;
  // Media are turned back into text if they are to be stored, or may be sent to the model more than once.
  const wantsText = request.truncation === "auto" || (request.store !== false && !hasLargeMedia);
  const owner = call.get("keyLabel");
  const input = toItems(request).map((item, index): StoredItem =>
    item.type === "item_reference"
      ? store.findItem(item.id, { owner, param: `input[${index}].id` })
      : {
        ...media && wantsText ? mapMedia(item, (url) => media.restore(url)) : item,
        id: newId("item"),
      }
  );
  const { previous_response_id: previousId } = request;
  const history = previousId
    ? store.getHistory(previousId, { owner, param: "previous_response_id" })
    : [];
  const chat = await openFitting([...history, ...input], { request, call, deps, onlyCounts });
  return { ...chat, request, input, hasLargeMedia };
}

async function countInputTokens(call: Call, endpoint: Endpoint): Promise<Response> {
  const { events } = await openResponse(call, { ...endpoint, onlyCounts: true });
  const { usage } = await waitForDone(events);
  return call.json({ object: "response.input_tokens", input_tokens: usage.promptTokens });
}

async function createResponse(call: Call, endpoint: Endpoint): Promise<Response> {
  const { info, events, request, input, hasLargeMedia } = await openResponse(call, endpoint);
  const builder = new ResponseBuilder({
    id: newId("resp"),
    createdSeconds: Math.floor(Date.now() / 1000),
    model: info.id,
    request,
  });
  const keep = () => {
    const { response } = builder;
    if (response.store && !hasLargeMedia && response.status !== "failed") {
      endpoint.store.add({ response, input, owner: call.get("keyLabel") });
    }
  };
  const ignored = input.flatMap((item) => item.type === "hosted" ? [item.item.type] : []);
  if (ignored.length > 0) {
    warn(
      call,
      `input items are ignored, because this server does not have their tools: ${
        ignored.join(" ")
      }`,
    );
  }
  warnOfTools(call, listHostedTools(request));
  if (!request.stream) {
    for await (const event of requireSuccess(events)) builder.push(event);
    keep();
    return call.json(builder.response);
  }
  let number = 0;
  const format = (event: ChatEvent) => {
    const bodies = builder.push(event);
    if (event.type === "done") keep();
    return bodies.map((body) => formatNamedEvent({ ...body, sequence_number: number++ })).join("");
  };
  return streamEvents(events, format, { requestId: call.get("requestId") });
}

interface OpenOptions {
  readonly request: ResponsesRequest;
  readonly call: Call;
  readonly deps: AppDeps;
  readonly onlyCounts: boolean;
}

/** Opens the chat. With `truncation: auto`, leaves out the oldest turns if the chat is too long. */
async function openFitting(
  items: readonly StoredItem[],
  options: OpenOptions,
): Promise<OpenedChat> {
  if (options.request.truncation !== "auto") return await openItems(items, options);
  const { maxModelLength, contextLength } = options.deps.session.requireReady();
  let tooLong: unknown;
  for (const numDropped of planTruncations(items, maxModelLength ?? contextLength)) {
    try {
      return await openItems(items.slice(numDropped), options);
    } catch (error) {
      if (!isTooLong(error)) throw error;
      tooLong = error;
    }
  }
  throw tooLong;
}

function isTooLong(error: unknown): boolean {
  return error instanceof HearthError && error.kind === "context_length_exceeded";
}

async function openItems(
  items: readonly InputItem[],
  { request, ...options }: OpenOptions,
): Promise<OpenedChat> {
  try {
    const path = options.onlyCounts ? INPUT_TOKENS_PATH : PATH;
    return await openChat(toChatRequest(request, items), { ...options, path });
  } catch (error) {
    throw renameParam(error, (param) => toClientParam(param, { request, items }));
  }
}
