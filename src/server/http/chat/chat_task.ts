/**
 * Builds the worker's task from a chat completion request.
 *
 * @module
 */
import { type ChatRequest, readMaxTokens, readTopLogprobs } from "../../../wire/chat_request.ts";
import { findDry, findEffort, findRepeatPenalty } from "../../../wire/spellings.ts";
import { findOriginalJson } from "../body/decode_json.ts";
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

/** The seed with which clients of other servers ask for random sampling. */
const RANDOM_SEED = -1;
const MIXING_FACTOR = 0x9e3779b1;

/** Options for building a task from a request. */
export interface ChatTaskOptions extends ReadMessagesOptions {
  readonly requestId: string;
}

/**
 * Builds the task of `request`, and reads its media.
 *
 * @throws {HearthError} as {@linkcode readMessages}, {@linkcode readToolOptions} and {@linkcode toGrammar} do.
 */
export async function toChatTask(
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
    variables: readTemplateVariables(variables),
    variablesJson: variables ? findOriginalJson(variables) : undefined,
    reasoningEffort: findEffort(request) ?? undefined,
  };
}

/**
 * Reads the template's variables. Some clients send booleans as text. These are converted, because a template takes the
 * text "false" for true.
 */
function readTemplateVariables(
  given: ChatRequest["chat_template_kwargs"],
): PromptOptions["variables"] {
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
 * Reads the functions that the model may call; `undefined` if there are none.
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
    parametersJson: parameters ? findOriginalJson(parameters) : undefined,
    strict: strict ?? undefined,
  }));
  requireUniqueNames(functions, isOlder ? "functions" : "tools");
  const chosen = isOlder
    ? readFunctionCall(request, functions)
    : readToolChoice(request, functions);
  if (chosen.functions.length === 0) return undefined;
  // With OpenAI's older fields, a message holds only one call.
  return { ...chosen, isParallel: !isOlder && (request.parallel_tool_calls ?? true) };
}

/** Lists the types of the tools in a request that are not functions. */
export function listHostedTools({ tools }: ToolFields): string[] {
  return (tools ?? []).flatMap((tool) => "function" in tool ? [] : [tool.type]);
}

/** Whether a request uses OpenAI's older fields for tools. If so, the response uses them too. */
export function wantsFunctionCall({ tools, functions }: ToolFields): boolean {
  return !tools?.length && (functions?.length ?? 0) > 0;
}

function readFunctionCall(
  { function_call: call }: ToolFields,
  functions: readonly ToolFunction[],
): Choice {
  if (typeof call === "string" || !call) return { functions, choice: call ?? "auto" };
  return { functions, choice: requireName(call.name, { functions, param: "function_call.name" }) };
}

function readToolChoice(
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
    const choice = requireName(name, { functions, param: `${param}.function.name` });
    return { functions, choice };
  }
  const { mode, tools } = word.allowed_tools;
  const allowed = new Set(tools.map(({ function: { name } }, index) => {
    const path = `${param}.allowed_tools.tools[${index}].function.name`;
    return requireName(name, { functions, param: path }).name;
  }));
  return { functions: functions.filter(({ name }) => allowed.has(name)), choice: mode };
}

/** Checks that one of the functions has this name. @throws {HearthError} `invalid_value`. */
function requireName(
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

function requireUniqueNames(functions: readonly ToolFunction[], field: string): void {
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
