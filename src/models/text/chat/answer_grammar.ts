/**
 * The grammar of an answer: the requested format, required or possible calls, and reasoning before them.
 *
 * @module
 */
import { type GrammarSpec, sequence, text } from "../../../engine/grammar/spec.ts";
import type { CallMarkup } from "../calls/call_format.ts";
import type { ChatTask, ToolOptions } from "../../task.ts";
import type { AnswerForm } from "./answer_form.ts";

/** White space between reasoning and what follows. */
const BREAK: GrammarSpec = { kind: "regex", pattern: "\\n{0,2}", param: "messages" };

/** Whether the task alone implies a grammar. */
export function wantsGrammar({ grammar, tools }: ChatTask): boolean {
  if (grammar !== undefined) return true;
  if (tools === undefined || tools.choice === "none") return false;
  return tools.choice !== "auto" || tools.functions.some(({ strict }) => strict);
}

/** The grammar of the answer to `task`; `undefined` if it is free. */
export function toAnswerGrammar(task: ChatTask, form: AnswerForm): GrammarSpec | undefined {
  const markup = form.calls?.format.markup;
  const { grammar, tools } = task;
  if (tools === undefined || markup === undefined || tools.choice === "none") {
    return grammar && afterReasoning(grammar, form);
  }
  if (tools.choice === "auto") return autoGrammar({ grammar, tools, markup, form });
  const functions = tools.functions.map((called) => ({ ...called, strict: true }));
  return afterReasoning(forcedCalls({ ...tools, functions }, markup), form);
}

/**
 * Text is free unless a format is requested; if a function is strict, calls are constrained from their start: to one of
 * the functions, and the arguments of strict ones to their schemas.
 */
function autoGrammar(
  { grammar, tools, markup, form }: {
    readonly grammar: GrammarSpec | undefined;
    readonly tools: ToolOptions;
    readonly markup: CallMarkup;
    readonly form: AnswerForm;
  },
): GrammarSpec | undefined {
  const functions = tools.functions.map((called) => ({
    ...called,
    strict: called.strict === true,
  }));
  const bound = { ...tools, functions };
  if (grammar !== undefined) {
    const options = [forcedCalls({ ...bound, choice: "required" }, markup), grammar];
    return afterReasoning({ kind: "any_of", options }, form);
  }
  if (!functions.some(({ strict }) => strict)) return undefined;
  const then = sequence(text(markup.open), ...toCallGrammars(bound, markup), text(markup.close));
  return { kind: "lazy", triggers: [{ text: markup.trigger, then }] };
}

function forcedCalls(tools: ToolOptions, markup: CallMarkup): GrammarSpec {
  const before = text(markup.trigger + markup.open);
  return sequence(before, ...toCallGrammars(tools, markup), text(markup.close));
}

/** Wants at least one call; at most one if the request says so or names the function. */
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

function afterReasoning(grammar: GrammarSpec, { reasoning }: AnswerForm): GrammarSpec {
  if (reasoning === undefined || reasoning.state === "is_closed") return grammar;
  const { open, close } = reasoning.markers;
  const rest: GrammarSpec[] = [{ kind: "until", ending: close }, BREAK, grammar];
  if (reasoning.state === "is_open") return sequence(...rest);
  return { kind: "any_of", options: [sequence(text(open), ...rest), grammar] };
}
