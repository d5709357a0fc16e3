/**
 * Builds the worker's task from a chat completion request.
 *
 * @module
 */
import { type ChatRequest, readMaxTokens, readTopLogprobs } from "../../../wire/chat_request.ts";
import { findDry, findEffort, findRepeatPenalty } from "../../../wire/spellings.ts";
import { findWritten } from "../body/decode_json.ts";
import type {
  ChatTask,
  GenerationOptions,
  PromptOptions,
  ToolFunction,
  ToolOptions,
} from "../../../models/task.ts";
import { readMessages, type ReadMessagesOptions } from "./chat_messages.ts";
import { toGrammar } from "./chat_grammar.ts";
import type { ToolFields } from "../../../wire/tools_and_formats.ts";
import { HearthError } from "../../../base/errors.ts";

/** The seed that other servers take to mean "no seed". */
const RANDOM_SEED = -1;
const MIXING_FACTOR = 0x9e3779b1;

/** Options for building a task from a request. */
export interface ChatTaskOptions extends ReadMessagesOptions {
  readonly requestId: string;
}

/**
 * Builds the task of `request`, and reads its media.
 *
 * @throws {HearthError} `unsupported_by_model` when a message holds media that the model's kind cannot take;
 * `invalid_media` when media cannot be read; `payload_too_large` when the media are too large together.
 */
export async function chatTask(
  request: ChatRequest,
  options: ChatTaskOptions,
): Promise<ChatTask> {
  return {
    type: "chat",
    requestId: options.requestId,
    messages: await readMessages(request.messages, options),
    prompt: readPromptOptions(request),
    tools: readToolOptions(request),
    options: readGenerationOptions(request),
    grammar: toGrammar(request),
  };
}

/** Reads the options for rendering the prompt. */
export function readPromptOptions(
  request:
    & Parameters<typeof findEffort>[0]
    & Partial<
      Pick<ChatRequest, "add_generation_prompt" | "continue_final_message" | "chat_template_kwargs">
    >,
): PromptOptions {
  const { add_generation_prompt: begins, continue_final_message: goesOn } = request;
  const { chat_template_kwargs: variables } = request;
  return {
    addsGenerationPrompt: begins ?? undefined,
    continuesFinalMessage: goesOn ?? undefined,
    variables: templateVariables(variables),
    variablesJson: variables ? findWritten(variables) : undefined,
    reasoningEffort: findEffort(request) ?? undefined,
  };
}

/**
 * Converts the template's variables. Some clients send booleans as text, and to a template the text "false" is true.
 */
function templateVariables(given: ChatRequest["chat_template_kwargs"]): PromptOptions["variables"] {
  if (!given) return undefined;
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => {
      const isSwitch = typeof value === "string" && /^(true|false)$/i.test(value);
      return [name, isSwitch ? value.toLowerCase() === "true" : value];
    }),
  );
}

/** Reads the options for generating the answer. */
export function readGenerationOptions(request: ChatRequest): GenerationOptions {
  const stop = request.stop ?? request.stop_sequences ?? [];
  const repeat = findRepeatPenalty(request);
  return {
    temperature: request.temperature ?? undefined,
    topP: request.top_p ?? undefined,
    topK: request.top_k === -1 ? 0 : request.top_k ?? undefined,
    minP: request.min_p ?? undefined,
    topNSigma: request.top_n_sigma ?? undefined,
    presencePenalty: request.presence_penalty ?? undefined,
    frequencyPenalty: request.frequency_penalty ?? undefined,
    repetitionPenalty: request.repetition_penalty ?? repeat?.penalty,
    repetitionWindow: (request.repetition_penalty ?? null) === null ? repeat?.window : undefined,
    dry: findDry(request),
    logitBias: request.logit_bias
      ? Object.entries(request.logit_bias).map(([id, bias]) => [Number(id), bias] as const)
      : undefined,
    seed: typeof request.seed === "number" && request.seed !== RANDOM_SEED
      ? foldSeed(request.seed)
      : undefined,
    maxTokens: readMaxTokens(request),
    minTokens: request.min_tokens ?? undefined,
    stop: [stop].flat().filter((each) => each !== ""),
    includesStop: request.include_stop_str_in_output ?? undefined,
    skipsSpecialTokens: request.skip_special_tokens ?? undefined,
    stopTokenIds: request.stop_token_ids ?? undefined,
    ignoreEos: request.ignore_eos ?? undefined,
    n: request.n ?? 1,
    promptLogprobs: request.prompt_logprobs ?? undefined,
    topLogprobs: readTopLogprobs(request),
  };
}

/** Folds a seed of 64 bits to 32. A seed of 32 bits stays the same. */
function foldSeed(seed: number): number {
  const bits = BigInt.asUintN(64, BigInt(seed));
  const low = Number(bits & 0xffff_ffffn);
  const high = Number(bits >> 32n);
  return (low ^ Math.imul(high, MIXING_FACTOR)) >>> 0;
}

type Choice = Pick<ToolOptions, "functions" | "choice">;

/**
 * Reads the tools of a request; `undefined` if it has none.
 *
 * @throws {HearthError} `invalid_value` when two functions have the same name, or `tool_choice` names a function that
 * is not among them.
 */
export function readToolOptions(request: ToolFields): ToolOptions | undefined {
  const { tools, functions: older } = request;
  const isOlder = !tools?.length && (older?.length ?? 0) > 0;
  const listed = isOlder
    ? older ?? []
    : (tools ?? []).flatMap((tool) => "function" in tool ? [tool.function] : []);
  const functions = listed.map(({ name, description, parameters, strict }): ToolFunction => ({
    name,
    description: description ?? undefined,
    parameters: parameters ?? undefined,
    parametersJson: parameters ? findWritten(parameters) : undefined,
    strict: strict ?? undefined,
  }));
  requireOwnNames(functions, isOlder ? "functions" : "tools");
  const chosen = isOlder ? olderChoice(request, functions) : newerChoice(request, functions);
  if (chosen.functions.length === 0) return undefined;
  // OpenAI's older fields allow one call.
  return { ...chosen, isParallel: !isOlder && (request.parallel_tool_calls ?? true) };
}

/** Lists the types of the tools in a request that are not functions. */
export function listHostedTools({ tools }: ToolFields): string[] {
  return (tools ?? []).flatMap((tool) => "function" in tool ? [] : [tool.type]);
}

/** Whether a request uses OpenAI's older fields for tools; the response then does too. */
export function wantsFunctionCall({ tools, functions }: ToolFields): boolean {
  return !tools?.length && (functions?.length ?? 0) > 0;
}

function olderChoice(
  { function_call: call }: ToolFields,
  functions: readonly ToolFunction[],
): Choice {
  if (typeof call === "string" || !call) return { functions, choice: call ?? "auto" };
  return { functions, choice: named(call.name, { functions, param: "function_call.name" }) };
}

function newerChoice(
  { tool_choice: choice }: ToolFields,
  functions: readonly ToolFunction[],
): Choice {
  const param = "tool_choice";
  const word = typeof choice === "object" && choice !== null && !("function" in choice) &&
      !("allowed_tools" in choice)
    ? choice.type
    : choice;
  if (word === null || word === undefined) return { functions, choice: "auto" };
  if (word === "auto" || word === "none") return { functions, choice: word };
  if (functions.length === 0) {
    throw new HearthError(
      "invalid_value",
      `${param}: want tools in the request too, or this field left out.`,
      { param },
    );
  }
  if (typeof word === "string") return { functions, choice: "required" };
  if ("function" in word) {
    const { name } = word.function;
    return { functions, choice: named(name, { functions, param: `${param}.function.name` }) };
  }
  const { mode, tools } = word.allowed_tools;
  const allowed = new Set(tools.map(({ function: { name } }, index) => {
    const path = `${param}.allowed_tools.tools[${index}].function.name`;
    return named(name, { functions, param: path }).name;
  }));
  return { functions: functions.filter(({ name }) => allowed.has(name)), choice: mode };
}

function named(
  name: string,
  { functions, param }: { readonly functions: readonly ToolFunction[]; readonly param: string },
): { readonly name: string } {
  if (functions.some((each) => each.name === name)) return { name };
  throw new HearthError(
    "invalid_value",
    `${param}: want the name of one of the tools, saw ${JSON.stringify(name)}.`,
    { param },
  );
}

function requireOwnNames(functions: readonly ToolFunction[], field: string): void {
  const seen = new Set<string>();
  for (const [index, { name }] of functions.entries()) {
    if (seen.has(name)) {
      const param = field === "tools"
        ? `tools[${index}].function.name`
        : `functions[${index}].name`;
      throw new HearthError(
        "invalid_value",
        `${param}: want a different name for each function, saw ${JSON.stringify(name)} twice.`,
        { param },
      );
    }
    seen.add(name);
  }
}
