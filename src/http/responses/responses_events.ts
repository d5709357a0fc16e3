/**
 * From the model's events to a response, and to its stream events.
 *
 * @module
 */
import type { ResponsesRequest } from "../../api/responses_request.ts";
import type { OutputItem, OutputLogprob, ResponseObject } from "../../api/responses_response.ts";
import { HearthError } from "../../errors.ts";
import type { ChatEvent, ToolCallDelta } from "../../models/task.ts";

/** An event without its number. */
type ResponseEventBody = { readonly type: string } & Readonly<Record<string, unknown>>;

type Item<Type extends OutputItem["type"]> = Extract<OutputItem, { type: Type }>;

/** The fields of the request that a response repeats. */
interface ResponseHead {
  readonly id: string;
  readonly createdSeconds: number;
  readonly model: string;
  readonly request: ResponsesRequest;
}

/** Builds a response from events. */
export class ResponseBuilder {
  readonly response: ResponseObject;
  #hasBegun = false;
  /** The open item; an item ends where another begins. */
  #open: OutputItem | undefined;
  #reason: "stop" | "length" | "tool_calls" = "stop";
  /** Of tokens without text as yet: held back, or markup. */
  #unplacedLogprobs: OutputLogprob[] = [];

  constructor(head: ResponseHead) {
    this.response = newResponse(head);
  }

  /** Takes the next event of the model. @returns the client's events for it. */
  push(event: ChatEvent): ResponseEventBody[] {
    switch (event.type) {
      case "start":
        return this.#begin();
      case "admitted":
      case "prompt":
        return [];
      case "delta":
        return [
          ...this.#pushReasoning(event.reasoning ?? ""),
          ...this.#pushText(event.text, (event.logprobs ?? []).map(logprobOf)),
          ...(event.toolCalls ?? []).flatMap((call) => this.#pushCall(call)),
        ];
      case "finish":
        this.#reason = event.reason;
        return [];
      case "done":
        return this.#finish(event.usage);
      case "error":
        // Clients follow no stream that does not begin with them.
        return [...this.#begin(), this.#fail(HearthError.fromWire(event.error))];
    }
  }

  #begin(): ResponseEventBody[] {
    if (this.#hasBegun) return [];
    this.#hasBegun = true;
    return [this.#whole("response.created"), this.#whole("response.in_progress")];
  }

  #pushReasoning(delta: string): ResponseEventBody[] {
    if (delta === "") return [];
    this.#unplacedLogprobs = [];
    const [item, events] = this.#openItem("reasoning", () => ({
      id: newId("rs"),
      type: "reasoning",
      status: "in_progress",
      summary: [],
      content: [{ type: "reasoning_text", text: "" }],
    }));
    item.content[0]!.text += delta;
    return [
      ...events,
      this.#at(item, "response.reasoning_text.delta", { delta, content_index: 0 }),
    ];
  }

  #pushText(delta: string, ofDelta: readonly OutputLogprob[]): ResponseEventBody[] {
    if (delta === "") {
      this.#unplacedLogprobs.push(...ofDelta);
      return [];
    }
    const logprobs = [...beginningOf(delta, this.#unplacedLogprobs), ...ofDelta];
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
      this.#at(item, "response.output_text.delta", { delta, logprobs, content_index: 0 }),
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
        name,
        arguments: "",
      };
      events.push(this.#add(item));
    }
    this.#unplacedLogprobs = [];
    const item = this.#open as Item<"function_call">;
    item.arguments += delta;
    if (delta !== "") {
      events.push(this.#at(item, "response.function_call_arguments.delta", { delta }));
    }
    return events;
  }

  /** The item of this type that is open, or a new one after closing the open one. */
  #openItem<Type extends "message" | "reasoning">(
    type: Type,
    make: () => Item<Type>,
  ): [Item<Type>, ResponseEventBody[]] {
    if (this.#open?.type === type) return [this.#open as Item<Type>, []];
    const closing = this.#close();
    const item: Item<"message" | "reasoning"> = make() as Item<Type>;
    const added = this.#add({ ...item, content: [] });
    this.response.output[this.response.output.length - 1] = this.#open = item;
    const [part] = structuredClone(item.content);
    const part_added = this.#at(item, "response.content_part.added", { part, content_index: 0 });
    return [item as Item<Type>, [...closing, added, part_added]];
  }

  #add(item: OutputItem): ResponseEventBody {
    this.response.output.push(item);
    this.#open = item;
    const output_index = this.response.output.length - 1;
    return { type: "response.output_item.added", output_index, item: structuredClone(item) };
  }

  #close(status: "completed" | "incomplete" = "completed"): ResponseEventBody[] {
    const item = this.#open;
    if (item === undefined) return [];
    item.status = status;
    const events: ResponseEventBody[] = [];
    if (item.type === "function_call") {
      const { name, arguments: json } = item;
      const type = "response.function_call_arguments.done";
      events.push(this.#at(item, type, { name, arguments: json }));
    } else {
      const [part] = item.content;
      const [type, logprobs] = part!.type === "output_text"
        ? ["response.output_text.done", { logprobs: part!.logprobs }] as const
        : ["response.reasoning_text.done", {}] as const;
      events.push(
        this.#at(item, type, { text: part!.text, ...logprobs, content_index: 0 }),
        this.#at(item, "response.content_part.done", {
          part: structuredClone(part),
          content_index: 0,
        }),
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
    return [...closing, this.#whole(`response.${response.status}`)];
  }

  #fail({ kind: code, message }: HearthError): ResponseEventBody {
    this.response.status = "failed";
    this.response.error = { code, message };
    return this.#whole("response.failed");
  }

  #at(
    { id: item_id }: OutputItem,
    type: string,
    more: Readonly<Record<string, unknown>>,
  ): ResponseEventBody {
    return { type, item_id, output_index: this.response.output.length - 1, ...more };
  }

  #whole(type: string): ResponseEventBody {
    return { type, response: structuredClone(this.response) };
  }
}

/** A new id of a response or an item. */
export function newId(prefix: string): string {
  return `${prefix}_${crypto.randomUUID().replaceAll("-", "")}`;
}

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
    reasoning: { effort: request.reasoning?.effort ?? null, summary: null },
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

const encoder = new TextEncoder();

/** The last of these tokens that `text` begins with; those before them were markup. */
function beginningOf(text: string, tokens: readonly OutputLogprob[]): OutputLogprob[] {
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

function logprobOf({ token, logprob, bytes, top }: DeltaLogprob): OutputLogprob {
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
