/**
 * The format of the answer to a chat task, detected from the model's chat template and the rendered prompt: how to
 * parse it, and the grammar that constrains it.
 *
 * @module
 */
import type { CallFormat, CallMarkup } from "../calls/call_format.ts";
import { detectCallFormat } from "./template_message.ts";
import type { ChatTask, ToolFunction, ToolOptions } from "../../task.ts";
import type { ChatTemplate } from "./chat_template.ts";
import { type GrammarSpec, sequence, text } from "../../../engine/grammar/grammar.ts";

/** The markers around a block of reasoning. */
interface ReasoningMarkers {
  readonly open: string;
  readonly close: string;
}

/** The markers of all known reasoning models. */
const MARKERS: readonly ReasoningMarkers[] = [
  // DeepSeek, Qwen, GLM, SmolLM, MiniCPM and many others
  { open: "<think>", close: "</think>" },
  // Magistral
  { open: "[THINK]", close: "[/THINK]" },
  // Gemma 4
  { open: "<|channel>thought\n", close: "<channel|>" },
  // Seed-OSS
  { open: "<seed:think>", close: "</seed:think>" },
  // MiniCPM 3
  { open: "<|thought_start|>", close: "<|thought_end|>" },
  // Command A
  { open: "<|START_THINKING|>", close: "<|END_THINKING|>" },
];

/** Finds the reasoning markers of a chat template; `undefined` if the model does not reason. */
export function findReasoningMarkers(template: string): ReasoningMarkers | undefined {
  return MARKERS.find(({ open, close }) =>
    template.includes(open.trim()) || template.includes(close)
  );
}

/**
 * Whether the answer may begin with a reasoning block, begins inside one, or follows one that the prompt has closed.
 */
type ReasoningState = "may_open" | "is_open" | "is_closed";

/**
 * Finds out where the answer begins in relation to a reasoning block.
 *
 * @param continues whether the prompt ends within a message of the assistant.
 */
export function findReasoningState(
  prompt: string,
  { markers, continues }: { readonly markers: ReasoningMarkers; readonly continues: boolean },
): ReasoningState {
  const end = prompt.trimEnd();
  if (end.endsWith(markers.open.trimEnd())) return "is_open";
  if (end.endsWith(markers.close)) return "is_closed";
  if (!continues) return "may_open";
  return prompt.lastIndexOf(markers.open) > prompt.lastIndexOf(markers.close)
    ? "is_open"
    : "is_closed";
}

/** The properties of an answer that its parser needs. */
export interface AnswerFormat {
  readonly reasoning?:
    | { readonly markers: ReasoningMarkers; readonly state: ReasoningState }
    | undefined;
  readonly calls?: {
    readonly format: CallFormat;
    /** The functions offered to the model. */
    readonly functions: readonly ToolFunction[];
    /** Whether to drop the calls that the model writes. */
    readonly isIgnored: boolean;
    /** Whether an answer may hold more than one call; true if absent. */
    readonly isParallel?: boolean | undefined;
    /** Whether the prompt ends within a message that the answer continues. */
    readonly isBegun?: boolean | undefined;
  } | undefined;
}

/** Detects the format of a task's answer. @param prompt the rendered prompt. */
export function detectAnswerFormat(
  { prompt: options, raw, tools, grammar }: ChatTask,
  { template, prompt }: { readonly template: ChatTemplate | undefined; readonly prompt: string },
): AnswerFormat {
  if (template === undefined || raw !== undefined) return {};
  const continues = options?.continuesFinalMessage === true;
  const callFormat = detectCallFormat(template.source);
  if (callFormat.channels !== undefined) {
    const { functions = [], choice = "none", isParallel } = tools ?? {};
    const isIgnored = choice === "none";
    return {
      calls: { format: callFormat, functions, isIgnored, isParallel, isBegun: continues },
    };
  }
  const markers = findReasoningMarkers(template.source);
  const reasoning = markers &&
    { markers, state: findReasoningState(prompt, { markers, continues }) };
  return {
    reasoning: reasoning && mayBeChoice(reasoning, grammar) ? undefined : reasoning,
    calls: tools && tools.functions.length > 0
      ? {
        format: callFormat,
        functions: tools.functions,
        isIgnored: tools.choice === "none",
        isParallel: tools.isParallel,
      }
      : undefined,
  };
}

/**
 * Whether an answer that looks like reasoning may be one of the texts between which the request lets the model choose.
 */
function mayBeChoice(
  { markers, state }: NonNullable<AnswerFormat["reasoning"]>,
  grammar: GrammarSpec | undefined,
): boolean {
  return state !== "is_open" && grammar?.kind === "choice" &&
    grammar.choices.some((choice) => choice.trimStart().startsWith(markers.open));
}

/** Lists the markers that the parser needs to see as text even if they are special tokens. */
export function listMarkers({ reasoning, calls }: AnswerFormat): string[] {
  return [
    ...reasoning === undefined ? [] : [reasoning.markers.open, reasoning.markers.close],
    ...calls?.format.markers ?? [],
  ];
}

/** White space between reasoning and the rest of the answer. */
const BREAK: GrammarSpec = { kind: "regex", pattern: "\\n{0,2}", param: "messages" };

/** Whether the task requires a grammar, whichever model answers it. */
export function wantsGrammar({ grammar, tools }: ChatTask): boolean {
  if (grammar !== undefined) return true;
  if (tools === undefined || tools.choice === "none") return false;
  return tools.choice !== "auto" || tools.functions.some(({ strict }) => strict);
}

/**
 * Makes the grammar of the answer to `task`: reasoning, followed by the requested format or calls. `undefined` if any
 * answer is valid.
 */
export function toAnswerGrammar(task: ChatTask, format: AnswerFormat): GrammarSpec | undefined {
  const markup = format.calls?.format.markup;
  const { grammar, tools } = task;
  if (tools === undefined || markup === undefined || tools.choice === "none") {
    return grammar && allowReasoning(toFinal(grammar, format), format);
  }
  if (tools.choice === "auto") return makeAutoGrammar({ grammar, tools, markup, format });
  const functions = tools.functions.map((called) => ({ ...called, strict: true }));
  return allowReasoning(makeForcedCalls({ ...tools, functions }, markup), format);
}

/**
 * Makes the grammar of an answer in which calls are possible but not required. Text is free unless a format is
 * requested. If a function is strict, calls are constrained from their opening marker on: their names to the offered
 * functions, and the arguments of strict functions to their schemas.
 */
function makeAutoGrammar(
  { grammar, tools, markup, format }: {
    readonly grammar: GrammarSpec | undefined;
    readonly tools: ToolOptions;
    readonly markup: CallMarkup;
    readonly format: AnswerFormat;
  },
): GrammarSpec | undefined {
  const functions = tools.functions.map((called) => ({
    ...called,
    strict: called.strict === true,
  }));
  const bound = { ...tools, functions };
  if (grammar !== undefined) {
    const calls = makeForcedCalls({ ...bound, choice: "required" }, markup);
    const options = [calls, toFinal(grammar, format)];
    return allowReasoning({ kind: "any_of", options }, format);
  }
  if (!functions.some(({ strict }) => strict)) return undefined;
  const then = sequence(text(markup.open), ...toCallGrammars(bound, markup), text(markup.close));
  return { kind: "lazy", triggers: [{ text: markup.trigger, then }] };
}

function makeForcedCalls(tools: ToolOptions, markup: CallMarkup): GrammarSpec {
  const before = text((markup.before ?? "") + markup.trigger + markup.open);
  return sequence(before, ...toCallGrammars(tools, markup), text(markup.close));
}

/**
 * Makes grammars that require at least one call, and exactly one if calls are not parallel or the function is named.
 */
function toCallGrammars(tools: ToolOptions, markup: CallMarkup): GrammarSpec[] {
  const { functions, choice, isParallel } = tools;
  const isNamed = typeof choice === "object";
  const options = functions.flatMap((called, index) =>
    isNamed && called.name !== choice.name
      ? []
      : [markup.call(called, `tools[${index}].function.parameters`)]
  );
  const call: GrammarSpec = options.length === 1 ? options[0]! : { kind: "any_of", options };
  if (isNamed || !isParallel) return [call];
  const another = sequence(text(markup.separator), call);
  return [call, { kind: "repeat", item: another, min: 0 }];
}

/** Puts a grammar for text into the channel for text, if the format has channels. */
function toFinal(grammar: GrammarSpec, { calls }: AnswerFormat): GrammarSpec {
  const { format: { channels } = {}, isBegun } = calls ?? {};
  return channels === undefined || isBegun ? grammar : sequence(text(channels.final), grammar);
}

function allowReasoning(grammar: GrammarSpec, { reasoning, calls }: AnswerFormat): GrammarSpec {
  if (calls?.format.channels !== undefined) {
    if (calls.isBegun) return grammar;
    const { open, close, next } = calls.format.channels.reasoning;
    const thinks = sequence(text(open), { kind: "until", ending: close }, text(next), grammar);
    return { kind: "any_of", options: [thinks, grammar] };
  }
  if (reasoning === undefined || reasoning.state === "is_closed") return grammar;
  const { open, close } = reasoning.markers;
  const rest: GrammarSpec[] = [{ kind: "until", ending: close }, BREAK, grammar];
  if (reasoning.state === "is_open") return sequence(...rest);
  return { kind: "any_of", options: [sequence(text(open), ...rest), grammar] };
}
