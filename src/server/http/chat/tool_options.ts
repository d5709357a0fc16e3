/**
 * Makes a task's tools of the function fields of a request.
 *
 * @module
 */
import type { ToolFields } from "../../../wire/tool_request.ts";
import { findWritten } from "../body/decode_json.ts";
import { HearthError } from "../../../base/errors.ts";
import type { ToolFunction, ToolOptions } from "../../../models/task.ts";

type Choice = Pick<ToolOptions, "functions" | "choice">;

/**
 * The tools of a request; `undefined` if it has none.
 *
 * @throws {HearthError} `invalid_value` when two functions have one name, or a choice names none of them.
 */
export function toolOptions(request: ToolFields): ToolOptions | undefined {
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
  // The older form allows one call.
  return { ...chosen, isParallel: !isOlder && (request.parallel_tool_calls ?? true) };
}

/** Warns of the tools of a request that are no functions. */
export function warningsOfTools({ tools }: ToolFields): string[] {
  const types = (tools ?? []).flatMap((tool) => "function" in tool ? [] : [tool.type]);
  return types.length > 0 ? [`tools that this server does not have: ${types.join(" ")}`] : [];
}

/** Whether a request uses the older form of tools; the answer then does too. */
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
      `${param}: want no value without tools, or tools beside it.`,
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
        `${param}: there are two functions ${
          JSON.stringify(name)
        }; want a name of its own for each.`,
        { param },
      );
    }
    seen.add(name);
  }
}
