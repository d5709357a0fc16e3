/**
 * A folder's chat template, which renders conversations into prompts.
 *
 * @module
 */
import { join } from "node:path";
import { HearthError } from "../../../base/errors.ts";
import {
  type Json,
  locate,
  type ModelFolder,
  readOptionalJson,
} from "../../../hub/model_folder.ts";
import { JsonText, Template } from "../../../jinja/template.ts";
import type { ToolFunction } from "../../task.ts";
import {
  fitCalls,
  mergeTurns,
  type RenderOptions,
  type TemplateMessage,
} from "./template_message.ts";

/** Template sources by name: `default`, and `tool_use` if conversations with tools have a separate template. */
type TemplateSources = ReadonlyMap<string, string>;

const PROBE = "sphinx of black quartz";
const PROBE_FUNCTION = "judge_my_vow";
const TOOLS_OF_MESSAGE = /\bmessage(\.tools\b|\[['"]tools['"]\])/;
const REASONING_SWITCHES = ["enable_thinking", "thinking"] as const;

export class ChatTemplate {
  readonly #sources: TemplateSources;
  readonly #specialTokens: Readonly<Record<string, string>>;
  readonly #templates = new Map<string, Template>();
  #takesTools: boolean | undefined;
  #takesTwoSystem: boolean | undefined;
  #takesLaterSystem: boolean | undefined;

  /** @param specialTokens the special tokens by the names that templates use, such as `bos_token`. */
  constructor(sources: TemplateSources, specialTokens: Readonly<Record<string, string>> = {}) {
    this.#sources = sources;
    this.#specialTokens = specialTokens;
  }

  /** The sources of all templates, from which the model's formats are detected. */
  get source(): string {
    return [...this.#sources.values()].join("\n");
  }

  /** Whether the template renders functions. */
  get takesTools(): boolean {
    const functions = [{ name: PROBE_FUNCTION, description: "Judges.", parameters: EMPTY_OBJECT }];
    return this.#takesTools ??= this.#shows([PROBE_FUNCTION], [USER], { functions });
  }

  /**
   * Renders the prompt of a conversation, up to the point where the assistant's answer begins. Consecutive messages of
   * the same role are merged if the template refuses them.
   *
   * @throws {HearthError} `invalid_value` when the template refuses the conversation.
   */
  render(messages: readonly TemplateMessage[], options: RenderOptions = {}): string {
    const fitting = this.#mergeSystemMessages(messages);
    try {
      return this.#renderTurns(fitting, options);
    } catch (error) {
      const merged = mergeTurns(fitting);
      if (merged.length === fitting.length) throw error;
      try {
        return this.#renderTurns(merged, options);
      } catch {
        throw error;
      }
    }
  }

  #renderTurns(fitting: readonly TemplateMessage[], options: RenderOptions): string {
    if (!options.continuesFinalMessage) return this.#render(fitting, options);
    const last = fitting.at(-1)!;
    const rendered = this.#render([...fitting.slice(0, -1), tagEnd(last)], {
      ...options,
      addsGenerationPrompt: false,
    });
    return cutAtTag(rendered, findLastText(last));
  }

  #render(messages: readonly TemplateMessage[], options: RenderOptions): string {
    const { functions = [], variables, addsGenerationPrompt = true } = options;
    try {
      return this.#getTemplate(functions).render({
        ...this.#specialTokens,
        ...this.#reasoningVariables(options.reasoningEffort),
        ...variables,
        ...toRawVariables(options),
        ...this.#toolVariables(functions),
        messages: this.#withTools(fitCalls(messages, this.source), functions),
        add_generation_prompt: addsGenerationPrompt,
      });
    } catch (error) {
      throw new HearthError(
        "invalid_value",
        `The model's chat template refused these messages: ${(error as Error).message}`,
        { param: "messages", cause: error },
      );
    }
  }

  #getTemplate(functions: readonly ToolFunction[]): Template {
    const hasOwn = functions.length > 0 && this.#sources.has("tool_use");
    const name = hasOwn ? "tool_use" : this.#sources.keys().next().value!;
    const known = this.#templates.get(name);
    if (known !== undefined) return known;
    const template = new Template(this.#sources.get(name)!);
    this.#templates.set(name, template);
    return template;
  }

  #toolVariables(functions: readonly ToolFunction[]): Record<string, unknown> {
    if (functions.length === 0) return {};
    const tools = functions.map(toTool);
    // SmolLM3's template chooses between two call formats by the name of the variable.
    return { tools, ...(this.source.includes("xml_tools") && { xml_tools: tools }) };
  }

  /** Adds the tools to the messages, for templates that read them from the system message (Phi-4-mini). */
  #withTools(
    messages: readonly TemplateMessage[],
    functions: readonly ToolFunction[],
  ): readonly TemplateMessage[] {
    if (functions.length === 0 || !TOOLS_OF_MESSAGE.test(this.source)) return messages;
    const [first] = messages;
    const hasSystem = first?.role === "system";
    const system: TemplateMessage = hasSystem ? first : { role: "system", content: "" };
    const tools = JSON.stringify(
      functions.map(({ parametersJson: _, ...each }) => toTool(each).function),
    );
    return [{ ...system, tools }, ...messages.slice(hasSystem ? 1 : 0)];
  }

  /** Converts a reasoning effort to variables of the template. */
  #reasoningVariables(effort: string | undefined): Record<string, unknown> {
    if (effort === undefined) return {};
    const { source } = this;
    const switches = REASONING_SWITCHES.filter((name) =>
      new RegExp(`(?<![.\\w])${name}\\b`).test(source)
    );
    return {
      ...Object.fromEntries(switches.map((name) => [name, effort !== "none"])),
      ...(effort !== "none" && { reasoning_effort: effort }),
    };
  }

  /** Merges system messages into the first one if the template does not accept them at their positions. */
  #mergeSystemMessages(messages: readonly TemplateMessage[]): readonly TemplateMessage[] {
    const isSystem = ({ role }: TemplateMessage) => role === "system";
    const firstOther = messages.findIndex((message) => !isSystem(message));
    const numLeading = firstOther < 0 ? messages.length : firstOther;
    const isLater = messages.slice(numLeading).some(isSystem);
    if (isLater && !(this.#takesLaterSystem ??= this.#probeSystem([FIRST, USER, SECOND]))) {
      return putSystemFirst(messages.filter(isSystem), messages.filter((each) => !isSystem(each)));
    }
    if (numLeading < 2 || (this.#takesTwoSystem ??= this.#probeSystem([FIRST, SECOND, USER]))) {
      return messages;
    }
    return putSystemFirst(messages.slice(0, numLeading), messages.slice(numLeading));
  }

  #probeSystem(messages: readonly TemplateMessage[]): boolean {
    return this.#shows([FIRST, SECOND].map(({ content }) => joinText(content)), messages, {});
  }

  #shows(
    wanted: readonly string[],
    messages: readonly TemplateMessage[],
    options: RenderOptions,
  ): boolean {
    try {
      const rendered = this.#render(messages, options);
      return wanted.every((each) => rendered.includes(each));
    } catch {
      return false;
    }
  }
}

const EMPTY_OBJECT = { type: "object", properties: {} };
const USER: TemplateMessage = { role: "user", content: PROBE };
const FIRST: TemplateMessage = { role: "system", content: `${PROBE} 1` };
const SECOND: TemplateMessage = { role: "system", content: `${PROBE} 2` };

/**
 * Reads the variables from the JSON that was received, in which 1.0 stays a float. Booleans are left out: a client may
 * have sent them as strings, so the parsed ones are used.
 */
function toRawVariables({ variables, variablesJson }: RenderOptions): Record<string, unknown> {
  if (variablesJson === undefined) return {};
  const all = Object.entries(new JsonText(variablesJson).readMembers());
  return Object.fromEntries(all.filter(([name]) => typeof variables?.[name] !== "boolean"));
}

/** Converts a function to the layout that templates take. */
function toTool({ name, description, parameters = EMPTY_OBJECT, parametersJson }: ToolFunction) {
  const shown = parametersJson === undefined ? parameters : new JsonText(parametersJson);
  return {
    type: "function",
    function: { name, ...(description !== undefined && { description }), parameters: shown },
  };
}

/** Text that cannot occur in a message. The space at its end shows whether a template trims messages. */
const END_TAG = "CONTINUE_FINAL_MESSAGE_TAG ";

/** A message's last text; empty if it has none. */
function findLastText({ content }: TemplateMessage): string {
  if (typeof content === "string") return content;
  return content.findLast(({ text }) => text !== undefined)?.text ?? "";
}

/** Appends {@linkcode END_TAG} to the text of a message. */
function tagEnd(message: TemplateMessage): TemplateMessage {
  const { content } = message;
  if (typeof content === "string") return { ...message, content: content + END_TAG };
  const last = content.findLastIndex(({ text }) => text !== undefined);
  const tagged = content.map((part, index) =>
    index === last ? { ...part, text: part.text + END_TAG } : part
  );
  return { ...message, content: tagged };
}

/**
 * Cuts a prompt at {@linkcode END_TAG}, as transformers does for `continue_final_message`.
 *
 * @param text the text before the tag.
 */
function cutAtTag(rendered: string, text: string): string {
  const end = rendered.lastIndexOf(END_TAG.trimEnd());
  if (end < 0 || !rendered.includes(text.trim())) {
    throw new HearthError(
      "invalid_value",
      "the model's chat template changes the last message, so it cannot be continued.",
      { param: "continuesFinalMessage" },
    );
  }
  const prompt = rendered.slice(0, end);
  return rendered.startsWith(END_TAG, end) ? prompt : prompt.trimEnd();
}

function putSystemFirst(
  system: readonly TemplateMessage[],
  others: readonly TemplateMessage[],
): TemplateMessage[] {
  const content = system.map((message) => joinText(message.content)).join("\n\n");
  return [{ role: "system", content }, ...others];
}

function joinText(content: TemplateMessage["content"]): string {
  return typeof content === "string" ? content : content.map(({ text }) => text ?? "").join("\n");
}

/** Loads a folder's chat template; `undefined` if there is none. */
export async function loadChatTemplate(
  folder: ModelFolder,
  config: Json,
): Promise<ChatTemplate | undefined> {
  const sources = await readTemplateSources(folder, config);
  return sources.size === 0 ? undefined : new ChatTemplate(sources, readSpecialTokens(config));
}

/** Reads the templates, the default one first, from a separate file or from `config` (`tokenizer_config.json`). */
async function readTemplateSources(
  folder: ModelFolder,
  config: Json,
): Promise<TemplateSources> {
  const file = locate(folder, "chat_template.jinja");
  if (file !== undefined) {
    const source = await Deno.readTextFile(join(folder.path, file));
    return new Map([["default", source]]);
  }
  const { chat_template: separate } = await readOptionalJson(folder, "chat_template.json");
  const template = separate ?? config["chat_template"];
  if (typeof template === "string") return new Map([["default", template]]);
  if (!Array.isArray(template)) return new Map();
  const named = template as { name: string; template: string }[];
  const sources = named.map(({ name, template }) => [name, template] as const);
  return new Map(sources.sort(([a], [b]) => Number(b === "default") - Number(a === "default")));
}

/** Reads the special tokens by the names that templates use, such as `bos_token`. */
function readSpecialTokens(config: Json): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const [name, value] of Object.entries(config)) {
    if (!/^(bos|eos|unk|sep|pad|cls|mask)_token$/.test(name)) continue;
    const content = typeof value === "object"
      ? (value as { content?: unknown } | null)?.content
      : value;
    if (typeof content === "string") tokens[name] = content;
  }
  return tokens;
}
