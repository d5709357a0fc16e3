/**
 * `POST /completions`: text that goes on, without a chat template.
 *
 * @module
 */
import type { ChatRequest } from "../api/chat_request.ts";
import { CompletionsRequest, DEFAULT_MAX_TOKENS } from "../api/completions_request.ts";
import { type CompletionLogprobs, TextCompletion } from "../api/completions_response.ts";
import { nestedError } from "../api/error_body.ts";
import { requireEndpoint, requireModelName } from "../api/endpoints.ts";
import { parseRequest } from "../api/parse.ts";
import { requireServed } from "../api/unserved_fields.ts";
import { HearthError } from "../errors.ts";
import type { ChatEvent, ChatTask, TokenUsage } from "../models/task.ts";
import { readJson } from "./body.ts";
import { grammarOf } from "./chat_grammar.ts";
import { generationOptions } from "./chat_task.ts";
import { mergeEvents } from "./merge_events.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route } from "./route.ts";
import { formatEvent, streamEvents } from "./sse.ts";
import { noteFailure, untilAdmitted } from "./task_events.ts";

const PATH = "/completions";

/** The endpoint. */
export function completionsRoute(deps: AppDeps): Route {
  return {
    method: "POST",
    path: PATH,
    operation: {
      summary: "Go on from a text, without a chat template",
      request: { "application/json": CompletionsRequest },
      requestExamples: { "a text": { model: "", prompt: "Once upon a time", max_tokens: 32 } },
      response: {
        description: "The completion",
        content: { "application/json": TextCompletion, "text/event-stream": TextCompletion },
      },
      errors: [...JSON_ERRORS, "context_length_exceeded", "model_not_found"],
    },
    handle: (call) => answerCompletion(call, deps),
  };
}

type Prompt = string | readonly number[];
type Choice = TextCompletion["choices"][number];

async function answerCompletion(call: Call, deps: AppDeps): Promise<Response> {
  const { session } = deps;
  session.requireRoom();
  const body = await readJson(call.req.raw, deps.bodyLimits);
  const request = parseRequest(CompletionsRequest, body);
  // What else completions have in common with chats; these three are theirs.
  const { echo: _, best_of: __, prompt_logprobs: ___, ...common } = body as Record<string, unknown>;
  requireServed(common);
  const info = session.requireReady();
  requireModelName(info, request.model);
  requireEndpoint(info, PATH);
  const requestId = call.get("requestId");
  const { signal } = call.req.raw;
  const prompts = promptsOf(request);
  const tasks = prompts.map((prompt) => completionTask(request, { prompt, requestId }));
  const opened = tasks.map((task) => session.stream(task, { signal }));
  const events = mergeEvents(await Promise.all(opened.map((each) => untilAdmitted(each))));
  const builder = new CompletionBuilder(request, { model: info.id, prompts });
  if (request.stream) {
    const onError = noteFailure(requestId);
    return streamEvents(events, ({ from, event }) => {
      if (event.type !== "error") return builder.format(event, from);
      const error = HearthError.fromWire(event.error);
      onError(error);
      return formatEvent(JSON.stringify(nestedError(error)));
    });
  }
  for await (const { from, event } of events) {
    if (event.type === "error") throw HearthError.fromWire(event.error);
    builder.push(event, from);
  }
  return call.json(builder.whole());
}

function promptsOf({ prompt }: CompletionsRequest): readonly Prompt[] {
  if (typeof prompt === "string") return [prompt];
  return typeof prompt[0] === "number" ? [prompt as number[]] : prompt as Prompt[];
}

function completionTask(
  request: CompletionsRequest,
  { prompt, requestId }: { readonly prompt: Prompt; readonly requestId: string },
): ChatTask {
  const { suffix, logprobs, max_tokens: maxTokens, ...others } = request;
  const hasLogprobs = (logprobs ?? null) !== null;
  const chat: ChatRequest = {
    ...others,
    messages: [],
    max_tokens: maxTokens ?? DEFAULT_MAX_TOKENS,
    logprobs: hasLogprobs,
    top_logprobs: logprobs ?? undefined,
  };
  return {
    type: "chat",
    requestId,
    messages: [],
    raw: { prompt, suffix: suffix ?? undefined },
    options: generationOptions(chat),
    grammar: grammarOf(chat),
  };
}

/** Puts completions of several prompts together, or their chunks. */
class CompletionBuilder {
  readonly #request: CompletionsRequest;
  readonly #head: Pick<TextCompletion, "id" | "object" | "created" | "model">;
  readonly #prompts: readonly Prompt[];
  readonly #choices: Choice[];
  readonly #begun = new Set<number>();
  readonly #usage = { prompt: 0, completion: 0, cached: 0 };
  #numDone = 0;

  constructor(
    request: CompletionsRequest,
    { model, prompts }: { readonly model: string; readonly prompts: readonly Prompt[] },
  ) {
    this.#request = request;
    this.#prompts = prompts;
    this.#head = {
      id: `cmpl-${crypto.randomUUID()}`,
      object: "text_completion",
      created: Math.floor(Date.now() / 1000),
      model,
    };
    const numChoices = prompts.length * (request.n ?? 1);
    const hasLogprobs = (request.logprobs ?? null) !== null;
    this.#choices = Array.from({ length: numChoices }, (_, index) => ({
      index,
      text: "",
      logprobs: hasLogprobs ? noLogprobs() : null,
      finish_reason: null,
    }));
  }

  /** @param from which prompt. @returns the piece of a choice that came with it. */
  push(event: ChatEvent, from: number): Choice | undefined {
    switch (event.type) {
      case "delta": {
        const choice = this.#choiceOf(event.index, from);
        const offset = choice.text.length;
        const text = this.#echoOf(choice.index, from) + event.text;
        const logprobs = choice.logprobs && logprobsOf(event.logprobs ?? [], offset);
        choice.text += text;
        if (choice.logprobs && logprobs) append(choice.logprobs, logprobs);
        return { index: choice.index, text, logprobs, finish_reason: null };
      }
      case "finish": {
        const choice = this.#choiceOf(event.index, from);
        const text = this.#echoOf(choice.index, from);
        choice.text += text;
        choice.finish_reason = event.reason === "length" ? "length" : "stop";
        return { index: choice.index, text, logprobs: null, finish_reason: choice.finish_reason };
      }
      case "done":
        this.#add(event.usage);
        return undefined;
      default:
        return undefined;
    }
  }

  /** The same as an event of a stream. */
  format(event: ChatEvent, from: number): string {
    const piece = this.push(event, from);
    if (piece !== undefined) {
      return formatEvent(JSON.stringify({ ...this.#head, choices: [piece] }));
    }
    if (this.#numDone < this.#prompts.length || event.type !== "done") return "";
    const usage = this.#request.stream_options?.include_usage
      ? formatEvent(JSON.stringify({ ...this.#head, choices: [], usage: this.#usageObject() }))
      : "";
    return usage + formatEvent("[DONE]");
  }

  whole(): TextCompletion {
    return { ...this.#head, choices: this.#choices, usage: this.#usageObject() };
  }

  #choiceOf(index: number, from: number): Choice {
    return this.#choices[from * (this.#request.n ?? 1) + index]!;
  }

  /** The prompt, once before each of its choices. */
  #echoOf(index: number, from: number): string {
    if (!this.#request.echo || this.#begun.has(index)) return "";
    this.#begun.add(index);
    const prompt = this.#prompts[from]!;
    return typeof prompt === "string" ? prompt : "";
  }

  #add({ promptTokens, completionTokens, cachedTokens }: TokenUsage): void {
    this.#numDone++;
    this.#usage.prompt += promptTokens;
    this.#usage.completion += completionTokens;
    this.#usage.cached += cachedTokens;
  }

  #usageObject() {
    const { prompt, completion, cached } = this.#usage;
    return {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
      prompt_tokens_details: { cached_tokens: cached },
    };
  }
}

type DeltaLogprobs = NonNullable<Extract<ChatEvent, { type: "delta" }>["logprobs"]>;

function noLogprobs(): CompletionLogprobs {
  return { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
}

/** @param offset of the first token in the choice's text. */
function logprobsOf(tokens: DeltaLogprobs, offset: number): CompletionLogprobs {
  const result = noLogprobs();
  for (const { token, logprob, top } of tokens) {
    result.tokens.push(token);
    result.token_logprobs.push(logprob);
    result.top_logprobs.push(Object.fromEntries(top.map((each) => [each.token, each.logprob])));
    result.text_offset.push(offset);
    offset += token.length;
  }
  return result;
}

function append(all: CompletionLogprobs, more: CompletionLogprobs): void {
  all.tokens.push(...more.tokens);
  all.token_logprobs.push(...more.token_logprobs);
  all.top_logprobs.push(...more.top_logprobs);
  all.text_offset.push(...more.text_offset);
}
