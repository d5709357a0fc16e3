/**
 * Conversations, and their conversion to requests.
 *
 * @module
 */

/** A function call that the model asks for. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON as the model wrote it. */
  readonly arguments: string;
}

/** A token with its probability and the likeliest alternatives. */
export interface TokenChoice {
  readonly token: string;
  readonly logprob: number;
  readonly top_logprobs: readonly { readonly token: string; readonly logprob: number }[];
}

/** Tokens and time of an answer. */
export interface AnswerFigures {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly firstTokenMs: number;
  readonly totalMs: number;
}

/** One message. */
export interface Message {
  readonly id: string;
  readonly role: "user" | "assistant" | "tool";
  readonly text: string;
  /** `data:` URLs. */
  readonly images?: readonly string[];
  readonly reasoning?: string;
  readonly toolCalls?: readonly ToolCall[];
  /** Of a tool's result: the call that it answers. */
  readonly toolCallId?: string;
  readonly figures?: AnswerFigures;
  readonly tokens?: readonly TokenChoice[];
  /** How the answer ended, unless normally. */
  readonly note?: string;
  readonly error?: string;
}

/** A conversation, as stored and exported. */
export interface Conversation {
  readonly id: string;
  readonly title: string;
  readonly updatedMs: number;
  readonly messages: readonly Message[];
}

/** The user's settings for requests. */
export interface ChatSettings {
  readonly system: string;
  /** Numbers by the name of their field; absent ones are the model's defaults. */
  readonly sampling: Readonly<Record<string, number>>;
  /** A JSON schema that answers must follow; empty for none. */
  readonly schema: string;
  /** OpenAI's `tools`, as JSON; empty for none. */
  readonly tools: string;
  readonly showsProbabilities: boolean;
  /** `reasoning_effort`; empty for the model's own. */
  readonly effort: string;
}

/** Nothing set. */
export const DEFAULT_SETTINGS: ChatSettings = {
  system: "",
  sampling: {},
  schema: "",
  tools: "",
  showsProbabilities: false,
  effort: "",
};

/** An id that no other conversation or message has. `crypto.randomUUID` is not there on pages at plain `http://`. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** An empty conversation. */
export function newConversation(): Conversation {
  return {
    id: newId(),
    title: "New conversation",
    updatedMs: Date.now(),
    messages: [],
  };
}

/** The start of the user's first message. */
export function titleOf(messages: readonly Message[]): string {
  const text = messages.find(({ role }) => role === "user")?.text.trim() || "Image";
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

/**
 * The request that asks for the next message.
 *
 * @throws {SyntaxError} when the schema or the tools are not JSON.
 */
export function chatRequest(
  model: string,
  messages: readonly Message[],
  settings: ChatSettings,
): Record<string, unknown> {
  const { system, sampling, schema, tools, showsProbabilities, effort } = settings;
  return {
    model,
    messages: [
      ...(system.trim() === "" ? [] : [{ role: "system", content: system }]),
      ...messages.filter(({ error, text, toolCalls }) => !error || text !== "" || toolCalls).map(
        wireMessage,
      ),
    ],
    ...sampling,
    ...(effort !== "" && { reasoning_effort: effort }),
    ...(schema.trim() !== "" && {
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", strict: true, schema: parseJson("JSON schema", schema) },
      },
    }),
    ...(tools.trim() !== "" && { tools: parseJson("tools", tools) }),
    ...(showsProbabilities && { logprobs: true, top_logprobs: 5 }),
    stream: true,
    stream_options: { include_usage: true },
  };
}

function parseJson(what: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(`The ${what} in the settings is not JSON: ${(error as Error).message}`);
  }
}

function wireMessage(message: Message): unknown {
  const { role, text, images = [], reasoning, toolCalls, toolCallId } = message;
  if (role === "tool") return { role, tool_call_id: toolCallId, content: text };
  // Between a call and its result the model goes on from its thought; templates drop older ones themselves.
  const thought = reasoning === undefined ? {} : { reasoning_content: reasoning };
  if (toolCalls !== undefined) {
    return {
      role,
      ...thought,
      content: text === "" ? null : text,
      tool_calls: toolCalls.map((call) => ({
        id: call.id,
        type: "function",
        function: { name: call.name, arguments: call.arguments },
      })),
    };
  }
  if (images.length === 0) return { role, ...thought, content: text };
  return {
    role,
    content: [
      ...images.map((url) => ({ type: "image_url", image_url: { url } })),
      ...(text === "" ? [] : [{ type: "text", text }]),
    ],
  };
}
