/**
 * `POST /completions`: continues a text without a chat template.
 *
 * @module
 */
import type { ChatRequest } from "../../../wire/chat_request.ts";
import {
  CompletionsRequest,
  DEFAULT_MAX_TOKENS,
  TextCompletion,
} from "../../../wire/text_endpoints.ts";
import { requireEndpoint, requireModelName } from "../../../wire/models.ts";
import { parseRequest } from "../../../wire/fields.ts";
import { findUnserved } from "../../../wire/unserved_fields.ts";
import { findOtherLimit } from "../../../wire/spellings.ts";
import type { ChatEvent, ChatTask } from "../../../models/task.ts";
import { readJson } from "../body/body.ts";
import { toGrammar } from "../chat/chat_grammar.ts";
import { readGenerationOptions } from "../chat/chat_task.ts";
import { CompletionBuilder, type CompletionEvent, countChoices } from "./completions_answer.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route } from "../route.ts";
import { requireSuccess } from "../../session/task_stream.ts";
import { LONGEST_WAIT_MS, streamEvents, type TaskEvents, waitForAdmission } from "../sse.ts";
import { warn } from "../requests.ts";

const PATH = "/completions";

/** The endpoint for completions of plain text. */
export function completionsRoute(deps: AppDeps): Route {
  return {
    method: "POST",
    path: PATH,
    operation: {
      summary: "Continue a text, without a chat template",
      request: CompletionsRequest,
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

async function answerCompletion(call: Call, deps: AppDeps): Promise<Response> {
  const { session } = deps;
  session.requireRoom();
  const body = await readJson(call.req.raw, deps.bodyLimits);
  const parsed = parseRequest(CompletionsRequest, body);
  const request = { ...parsed, logprobs: parsed.logprobs ?? parsed.n_probs };
  // Chat requests have all other fields too.
  const { add_special_tokens: _adds, best_of: _best, echo: _echo, ...common } = body as Record<
    string,
    unknown
  >;
  warn(call, ...findUnserved(common));
  const info = session.requireReady();
  requireModelName(info, request.model);
  requireEndpoint(info, PATH);
  const requestId = call.get("requestId");
  const { signal } = call.req.raw;
  const prompts = listPrompts(request);
  const tasks = prompts.map((prompt) => toTask(request, { prompt, requestId }));
  const events = mergeEvents(await openAll(tasks, (task) => session.stream(task, { signal })));
  const builder = new CompletionBuilder(request, { model: info.id, numPrompts: prompts.length });
  if (request.stream) {
    const { emptyEvent } = builder;
    return streamEvents(events, (event) => builder.format(event), { requestId, emptyEvent });
  }
  for await (const event of requireSuccess(events)) builder.push(event);
  return call.json(builder.complete());
}

/**
 * Opens the streams of the tasks one after another, so that other requests can come in between. If a task is refused,
 * all streams are ended.
 *
 * @throws {HearthError} the error of the refused task.
 */
async function openAll(
  tasks: readonly ChatTask[],
  open: (task: ChatTask) => TaskEvents<ChatEvent>,
): Promise<TaskEvents<ChatEvent>[]> {
  const endMs = performance.now() + LONGEST_WAIT_MS;
  const opened: TaskEvents<ChatEvent>[] = [];
  try {
    for (const task of tasks) {
      const events = open(task);
      opened.push(events);
      const admitted = await waitForAdmission(events, Math.max(0, endMs - performance.now()));
      opened[opened.length - 1] = admitted;
    }
  } catch (error) {
    await Promise.all(opened.map((events) => events.return()));
    throw error;
  }
  return opened;
}

function listPrompts({ prompt }: CompletionsRequest): readonly Prompt[] {
  if (typeof prompt === "string") return [prompt];
  return typeof prompt[0] === "number" ? [prompt as number[]] : prompt as Prompt[];
}

function toTask(
  request: CompletionsRequest,
  { prompt, requestId }: { readonly prompt: Prompt; readonly requestId: string },
): ChatTask {
  const { suffix, echo, logprobs, max_tokens: maxTokens, add_special_tokens: adds, ...others } =
    request;
  const limit = maxTokens ?? findOtherLimit(request) ?? DEFAULT_MAX_TOKENS;
  const hasLogprobs = (logprobs ?? null) !== null;
  const numToGenerate = countChoices(request);
  const promptTops = [request.prompt_logprobs, echo ? logprobs : null]
    .filter((numTop) => typeof numTop === "number");
  const chat: ChatRequest = {
    ...others,
    messages: [],
    n: numToGenerate,
    // With `best_of`, the best choices are chosen by their log-probabilities.
    logprobs: hasLogprobs || numToGenerate > (request.n ?? 1),
    prompt_logprobs: promptTops.length > 0 ? Math.max(...promptTops) : undefined,
    top_logprobs: logprobs ?? undefined,
  };
  return {
    type: "chat",
    requestId,
    messages: [],
    raw: {
      prompt,
      suffix: suffix || undefined,
      echo: echo ?? undefined,
      addsSpecialTokens: adds ?? undefined,
    },
    options: { ...readGenerationOptions(chat), maxTokens: limit < 0 ? undefined : limit },
    grammar: toGrammar(chat),
  };
}

/**
 * Merges streams: yields events in the order in which they arrive. Ending the iteration, or an error event, ends all
 * streams.
 */
function mergeEvents(sources: readonly TaskEvents<ChatEvent>[]): TaskEvents<CompletionEvent> {
  const ask = async (from: number) => ({ from, result: await sources[from]!.next() });
  const pending = new Map(sources.map((_, from) => [from, ask(from)]));
  const end = async () => {
    pending.clear();
    await Promise.all(sources.map((source) => source.return()));
    return { done: true as const, value: undefined };
  };
  const merged: TaskEvents<CompletionEvent> = {
    async next() {
      while (pending.size > 0) {
        const { from, result } = await Promise.race(pending.values());
        pending.delete(from);
        if (result.done) continue;
        if (result.value.type === "error") await end();
        else pending.set(from, ask(from));
        return { done: false, value: { ...result.value, from } };
      }
      return { done: true, value: undefined };
    },
    return: end,
    [Symbol.asyncIterator]: () => merged,
  };
  return merged;
}
