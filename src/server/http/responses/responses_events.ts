/**
 * Converts the model's events to a response, and to the events of its stream.
 *
 * @module
 */
import type { ResponsesRequest } from "../../../wire/responses_request.ts";
import type {
  OutputItem,
  OutputLogprob,
  ResponseObject,
} from "../../../wire/responses_response.ts";
import { HearthError } from "../../../base/errors.ts";
import { isJson } from "../../../base/json.ts";
import type { ChatEvent, ToolCallDelta } from "../../../models/task.ts";
import { newId } from "../requests.ts";
import { mapCallNames } from "./responses_chat.ts";

/** An event without its sequence number. */
type ResponseEventBody = { readonly type: string } & Readonly<Record<string, unknown>>;

type Item<Type extends OutputItem["type"]> = Extract<OutputItem, { type: Type }>;

/** Builds a response, or the events of its stream, from the model's events. */
export class ResponseBuilder {
  readonly response: ResponseObject;
  #hasBegun = false;
  /** The item that is being written. It ends when another one begins. */
  #open: OutputItem | undefined;
  /** Whether reasoning is sent as a summary. */
  readonly #summarises: boolean;
  /** Maps the names that the model uses to the client's names, which may have namespaces. */
  readonly #callNames: ReturnType<typeof mapCallNames>;
  #reason: "stop" | "length" | "tool_calls" = "stop";
  /** Log-probabilities of tokens whose text has not arrived: it is held back, or is markup and never arrives. */
  #unplacedLogprobs: OutputLogprob[] = [];

  constructor(head: ResponseHead) {
    this.response = newResponse(head);
    this.#callNames = mapCallNames(head.request);
    this.#summarises = this.response.reasoning.summary !== null;
  }

  /** Takes the next event of the model. @returns the client's events for it. */
  push(event: ChatEvent): ResponseEventBody[] {
    switch (event.type) {
      case "start":
        return this.#begin();
      case "admitted":
      case "scheduled":
      case "prompt":
        return [];
      case "delta":
        return [
          ...this.#pushReasoning(event.reasoning ?? ""),
          ...this.#pushText(event.text, (event.logprobs ?? []).map(toLogprob)),
          ...(event.toolCalls ?? []).flatMap((call) => this.#pushCall(call)),
        ];
      case "finish":
        this.#reason = event.reason;
        return [];
      case "done":
        return this.#finish(event.usage);
      case "error":
        // Clients ignore a stream that does not begin with `response.created`.
        return [...this.#begin(), this.#fail(HearthError.fromWire(event.error))];
    }
  }

  #begin(): ResponseEventBody[] {
    if (this.#hasBegun) return [];
    this.#hasBegun = true;
    return [
      this.#makeResponseEvent("response.created"),
      this.#makeResponseEvent("response.in_progress"),
    ];
  }

  #pushReasoning(delta: string): ResponseEventBody[] {
    if (delta === "") return [];
    this.#unplacedLogprobs = [];
    const [item, events] = this.#openItem("reasoning", () => ({
      id: newId("rs"),
      type: "reasoning",
      status: "in_progress",
      summary: this.#summarises ? [{ type: "summary_text", text: "" }] : [],
      content: this.#summarises ? [] : [{ type: "reasoning_text", text: "" }],
    }));
    const { part, text, index } = toPart(item);
    part.text += delta;
    return [...events, this.#makeItemEvent(item, `${text}.delta`, { delta, ...index })];
  }

  #pushText(delta: string, deltaLogprobs: readonly OutputLogprob[]): ResponseEventBody[] {
    if (delta === "") {
      this.#unplacedLogprobs.push(...deltaLogprobs);
      return [];
    }
    const logprobs = [...sliceBeginning(delta, this.#unplacedLogprobs), ...deltaLogprobs];
    this.#unplacedLogprobs = [];
    const [item, events] = this.#openItem("message", () => ({
      id: newId("msg"),
      type: "message",
      role: "assistant",
      status: "in_progress",
      content: [{ type: "output_text", text: "", annotations: [], logprobs: [] }],
    }));
    const [text] = item.content;
    text!.text += delta;
    text!.logprobs.push(...logprobs);
    return [
      ...events,
      this.#makeItemEvent(item, "response.output_text.delta", {
        delta,
        logprobs,
        content_index: 0,
      }),
    ];
  }

  #pushCall({ id, name = "", arguments: delta }: ToolCallDelta): ResponseEventBody[] {
    const events: ResponseEventBody[] = [];
    if (id !== undefined) {
      events.push(...this.#close());
      const item: Item<"function_call"> = {
        id: newId("fc"),
        type: "function_call",
        status: "in_progress",
        call_id: id,
        ...(this.#callNames.get(name) ?? { name }),
        arguments: "",
      };
      events.push(this.#addItem(item));
    }
    this.#unplacedLogprobs = [];
    const item = this.#open as Item<"function_call">;
    item.arguments += delta;
    if (delta !== "") {
      events.push(this.#makeItemEvent(item, "response.function_call_arguments.delta", { delta }));
    }
    return events;
  }

  /** Returns the open item if it has this type. Otherwise closes it, and opens a new item. */
  #openItem<Type extends "message" | "reasoning">(
    type: Type,
    make: () => Item<Type>,
  ): [Item<Type>, ResponseEventBody[]] {
    if (this.#open?.type === type) return [this.#open as Item<Type>, []];
    const closing = this.#close();
    const item: Item<"message" | "reasoning"> = make() as Item<Type>;
    const empty = item.type === "message" ? { content: [] } : { content: [], summary: [] };
    const added = this.#addItem({ ...item, ...empty } as OutputItem);
    this.response.output[this.response.output.length - 1] = this.#open = item;
    const { part, frame, index } = toPart(item);
    const part_added = this.#makeItemEvent(item, `${frame}.added`, {
      part: structuredClone(part),
      ...index,
    });
    return [item as Item<Type>, [...closing, added, part_added]];
  }

  #addItem(item: OutputItem): ResponseEventBody {
    this.response.output.push(item);
    this.#open = item;
    const output_index = this.response.output.length - 1;
    return { type: "response.output_item.added", output_index, item: structuredClone(item) };
  }

  #close(status: "completed" | "incomplete" = "completed"): ResponseEventBody[] {
    const item = this.#open;
    if (item === undefined) return [];
    // A call whose arguments are incomplete must not be made, whatever the reason.
    item.status = item.type === "function_call"
      ? (isJson(item.arguments) ? "completed" : "incomplete")
      : status;
    const events: ResponseEventBody[] = [];
    if (item.type === "function_call") {
      const { name, arguments: json } = item;
      const type = "response.function_call_arguments.done";
      events.push(this.#makeItemEvent(item, type, { name, arguments: json }));
    } else {
      const { part, text, frame, index } = toPart(item);
      const logprobs = part.type === "output_text" && { logprobs: part.logprobs };
      events.push(
        this.#makeItemEvent(item, `${text}.done`, { text: part.text, ...logprobs, ...index }),
        this.#makeItemEvent(item, `${frame}.done`, { part: structuredClone(part), ...index }),
      );
    }
    const output_index = this.response.output.length - 1;
    events.push({ type: "response.output_item.done", output_index, item: structuredClone(item) });
    this.#open = undefined;
    return events;
  }

  #finish(usage: Extract<ChatEvent, { type: "done" }>["usage"]): ResponseEventBody[] {
    const { response } = this;
    const isCut = this.#reason === "length";
    const closing = this.#close(isCut ? "incomplete" : "completed");
    response.status = isCut ? "incomplete" : "completed";
    if (isCut) response.incomplete_details = { reason: "max_output_tokens" };
    const { promptTokens, completionTokens, cachedTokens, reasoningTokens = 0 } = usage;
    response.usage = {
      input_tokens: promptTokens,
      input_tokens_details: { cached_tokens: cachedTokens },
      output_tokens: completionTokens,
      output_tokens_details: { reasoning_tokens: reasoningTokens },
      total_tokens: promptTokens + completionTokens,
    };
    return [...closing, this.#makeResponseEvent(`response.${response.status}`)];
  }

  #fail({ kind: code, message }: HearthError): ResponseEventBody {
    this.response.status = "failed";
    this.response.error = { code, message };
    return this.#makeResponseEvent("response.failed");
  }

  #makeItemEvent(
    { id: item_id }: OutputItem,
    type: string,
    more: Readonly<Record<string, unknown>>,
  ): ResponseEventBody {
    return { type, item_id, output_index: this.response.output.length - 1, ...more };
  }

  #makeResponseEvent(type: string): ResponseEventBody {
    return { type, response: structuredClone(this.response) };
  }
}

/** Returns an item's only text part, and what its events need: the prefixes of their types, and the part's index. */
function toPart(item: Item<"message" | "reasoning">) {
  const frame = "response.content_part";
  const index = { content_index: 0 };
  if (item.type === "message") {
    return { part: item.content[0]!, text: "response.output_text", frame, index };
  }
  const [summary] = item.summary;
  if (summary === undefined) {
    return { part: item.content[0]!, text: "response.reasoning_text", frame, index };
  }
  return {
    part: summary,
    text: "response.reasoning_summary_text",
    frame: "response.reasoning_summary_part",
    index: { summary_index: 0 },
  };
}

const encoder = new TextEncoder();

/** Drops tokens from the front until `text` begins with the remaining ones. The dropped tokens were markup. */
function sliceBeginning(text: string, tokens: readonly OutputLogprob[]): OutputLogprob[] {
  const bytes = encoder.encode(text);
  const first = tokens.findIndex((_, start) => {
    let at = 0;
    let end = start;
    while (tokens[end]?.bytes.every((byte) => byte === bytes[at++])) end++;
    return end === tokens.length;
  });
  return first < 0 ? [] : tokens.slice(first);
}

type DeltaLogprob = NonNullable<Extract<ChatEvent, { type: "delta" }>["logprobs"]>[number];

function toLogprob({ token, logprob, bytes, top }: DeltaLogprob): OutputLogprob {
  return {
    token,
    logprob,
    bytes: [...bytes],
    top_logprobs: top.map((rival) => ({
      token: rival.token,
      logprob: rival.logprob,
      bytes: [...rival.bytes],
    })),
  };
}

/** What is known of a response before it has output. */
interface ResponseHead {
  readonly id: string;
  readonly createdSeconds: number;
  readonly model: string;
  readonly request: ResponsesRequest;
}

/** Creates a response that has no output yet. */
function newResponse({ id, createdSeconds, model, request }: ResponseHead): ResponseObject {
  return {
    id,
    object: "response",
    created_at: createdSeconds,
    status: "in_progress",
    error: null,
    incomplete_details: null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    model,
    output: [],
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: request.previous_response_id ?? null,
    reasoning: {
      effort: request.reasoning?.effort ?? null,
      summary: request.reasoning?.summary ?? request.reasoning?.generate_summary ?? null,
    },
    store: request.store ?? true,
    temperature: request.temperature ?? null,
    text: { format: request.text?.format ?? { type: "text" } },
    tool_choice: request.tool_choice ?? "auto",
    tools: request.tools ?? [],
    top_logprobs: request.top_logprobs ?? 0,
    top_p: request.top_p ?? null,
    truncation: request.truncation ?? "disabled",
    usage: null,
    user: request.user ?? null,
    metadata: request.metadata ?? {},
    background: false,
  };
}
