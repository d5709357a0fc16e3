/**
 * Checks that the model's chat template supports what a chat task needs.
 *
 * @module
 */
import { HearthError } from "../../errors.ts";
import type { ChatTask } from "../task.ts";
import type { ChatTemplate, RenderOptions } from "./chat_template.ts";

/** @throws {HearthError} `unsupported_by_model` for tools, if the template does not render them. */
export function renderOptions(
  { messages, prompt, tools }: Pick<ChatTask, "messages" | "prompt" | "tools">,
  template: ChatTemplate | undefined,
): RenderOptions {
  const functions = tools === undefined || tools.choice === "none" ? [] : tools.functions;
  if (functions.length > 0) requireTools(template, "tools");
  const asked = messages.findIndex(({ role, toolCalls = [] }) =>
    role === "tool" || toolCalls.length > 0
  );
  if (asked >= 0) requireTools(template, `messages[${asked}]`);
  return { ...prompt, functions };
}

function requireTools(template: ChatTemplate | undefined, param: string): void {
  if (template?.takesTools) return;
  throw new HearthError(
    "unsupported_by_model",
    `${param}: the loaded model's chat template does not support tools.`,
    { param },
  );
}
