/**
 * The formats of conversations outside the page: requests to the server, and files of exported conversations.
 *
 * @module
 */
import {
  type Attachment,
  type ChatSettings,
  type Conversation,
  growTree,
  type ListedConversation,
  type Message,
  readSettings,
  removeDeleted,
  type Turn,
} from "./conversation.ts";

/** The content of a request. */
export interface ChatRequestOptions {
  readonly messages: readonly Message[];
  readonly settings: ChatSettings;
  /** Functions in addition to those in the settings. */
  readonly tools?: readonly unknown[];
  /** Whether to continue the last message, which is an answer. */
  readonly continuesLast?: boolean;
}

/**
 * Makes the request for the next message.
 *
 * @throws {SyntaxError} when the schema or the tools are not JSON.
 */
export function makeChatRequest(
  model: string,
  { messages, settings, tools = [], continuesLast = false }: ChatRequestOptions,
): Record<string, unknown> {
  const { system, sampling, schema, showsProbabilities, effort } = settings;
  const allTools = [...parseTools(settings.tools), ...tools];
  return {
    model,
    messages: [
      ...(system.trim() === "" ? [] : [{ role: "system", content: system }]),
      ...messages.filter(({ error, text, toolCalls }) => !error || text !== "" || toolCalls).map(
        toChatMessage,
      ),
    ],
    ...sampling,
    ...(effort !== "" && { reasoning_effort: effort }),
    ...(schema.trim() !== "" && {
      response_format: {
        type: "json_schema",
        json_schema: {
          name: "answer",
          strict: true,
          schema: parseJson(schema, "JSON schema in the settings is"),
        },
      },
    }),
    ...(allTools.length > 0 && { tools: allTools }),
    ...(showsProbabilities && { logprobs: true, top_logprobs: 5 }),
    ...(continuesLast && { continue_final_message: true, add_generation_prompt: false }),
    stream: true,
    stream_options: { include_usage: true },
  };
}

function parseTools(text: string): unknown[] {
  if (text.trim() === "") return [];
  const tools = parseJson(text, "tools in the settings are");
  if (!Array.isArray(tools)) {
    throw new SyntaxError("The tools in the settings are not a JSON list.");
  }
  return tools;
}

function parseJson(text: string, subject: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(`The ${subject} not JSON: ${(error as Error).message}`);
  }
}

function toChatMessage(message: Message): unknown {
  const { role, text, images = [], files = [], reasoning, toolCalls, toolCallId } = message;
  if (role === "tool") return { role, tool_call_id: toolCallId, content: text };
  // After a tool call, the model continues from its reasoning. Older reasoning is dropped by the chat template.
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
  const written = [...files.flatMap(quoteText), text].filter((each) => each !== "").join("\n\n");
  const documents = files.flatMap(toFileParts);
  if (images.length + documents.length === 0) return { role, ...thought, content: written };
  return {
    role,
    content: [
      ...images.map((url) => ({ type: "image_url", image_url: { url } })),
      ...documents,
      ...(written === "" ? [] : [{ type: "text", text: written }]),
    ],
  };
}

/** Converts a file that the server reads to a part of a message. */
function toFileParts(file: Attachment): unknown[] {
  if ("text" in file) return [];
  return [{ type: "file", file: { filename: file.name, file_data: file.dataUrl } }];
}

/** Quotes a text file between fences that are longer than any fence within it. */
function quoteText(file: Attachment): string[] {
  if ("dataUrl" in file) return [];
  const longest = Math.max(2, ...file.text.match(/`{3,}/g)?.map(({ length }) => length) ?? []);
  const fence = "`".repeat(longest + 1);
  return [`${file.name}:\n${fence}\n${file.text}\n${fence}`];
}

const FORMAT = "hearth-conversations";
const VERSION = 2;

/** Conversations with all their branches. */
export interface Export {
  readonly conversations: readonly Conversation[];
  readonly turns: readonly Turn[];
}

/** Writes conversations as JSON, without deleted turns. */
export function writeExport({ conversations, turns }: Export): Blob {
  const trees = conversations.map((conversation) => {
    const own = turns.filter(({ conversationId }) => conversationId === conversation.id);
    return { ...conversation, ...removeDeleted(own, conversation.headId) };
  });
  const text = JSON.stringify({ format: FORMAT, version: VERSION, conversations: trees }, null, 1);
  return new Blob([text], { type: "application/json" });
}

/**
 * Reads a file of the current version or of the previous one.
 *
 * @throws {Error} that says what is wrong with the file, and where.
 */
export function readExport(text: string): Export {
  const { format, version, conversations } = parse(text);
  if (format !== FORMAT) {
    fail(`This is not a file of exported conversations: its "format" is not "${FORMAT}".`);
  }
  if (version !== 1 && version !== VERSION) {
    fail(`The file has version ${show(version)}; this page reads versions 1 and ${VERSION}.`);
  }
  if (!Array.isArray(conversations)) fail(`The file's "conversations" is not a list.`);
  const trees = (conversations as unknown[]).map((value, index) => {
    const at = `Conversation ${index + 1}`;
    return version === 1 ? readList(value, at) : readTree(value, at);
  });
  return {
    conversations: trees.map(({ conversation }) => conversation),
    turns: trees.flatMap(({ turns }) => turns),
  };
}

function parse(text: string): Record<string, unknown> {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    fail(`This is not a file of exported conversations: ${(error as Error).message}.`);
  }
  return isObject(content) ? content : fail("This is not a file of exported conversations.");
}

type Tree = ReturnType<typeof growTree>;

function readList(value: unknown, at: string): Tree {
  const listed = readHead(value, at);
  const { messages } = listed;
  if (!Array.isArray(messages)) fail(`${at} has no list of "messages".`);
  (messages as unknown[]).forEach((message, index) => {
    checkMessage(message, `Message ${index + 1} of conversation "${listed["title"]}"`);
  });
  return growTree(listed as unknown as ListedConversation);
}

function readTree(value: unknown, at: string): Tree {
  const { turns, ...head } = readHead(value, at);
  if (!Array.isArray(turns)) fail(`${at} has no list of "turns".`);
  const listed = turns as unknown[];
  const ids = new Set(listed.map((turn) => isObject(turn) ? turn["id"] : undefined));
  listed.forEach((turn, index) => {
    const place = `Turn ${index + 1} of conversation "${head["title"]}"`;
    const { parentId, conversationId, createdMs } = checkMessage(turn, place);
    if (conversationId !== head["id"]) fail(`${place} belongs to another conversation.`);
    if (parentId !== null && !ids.has(parentId)) fail(`${place} follows a turn that is missing.`);
    if (typeof createdMs !== "number") fail(`${place} has no number "createdMs".`);
  });
  checkAcyclic(listed as Turn[], head["title"]);
  if (head["headId"] !== null && !ids.has(head["headId"])) {
    fail(`${at} ends at a turn that is missing.`);
  }
  return { conversation: head as unknown as Conversation, turns: listed as Turn[] };
}

function readHead(value: unknown, at: string): Record<string, unknown> {
  if (!isObject(value)) return fail(`${at} is ${show(value)}, not an object.`);
  requireTypes(value, { id: "string", title: "string", updatedMs: "number" }, at);
  const { settings } = value;
  return { ...value, ...(settings !== undefined && { settings: readSettings(settings) }) };
}

const ROLES = ["user", "assistant", "tool"];

function checkMessage(value: unknown, at: string): Record<string, unknown> {
  if (!isObject(value)) return fail(`${at} is ${show(value)}, not an object.`);
  requireTypes(value, { id: "string", text: "string" }, at);
  const { role, images = [], files = [], toolCalls = [] } = value;
  if (!ROLES.includes(role as string)) {
    fail(`${at} has the role ${show(role)}; wanted ${ROLES.join(", ")}.`);
  }
  const isImage = (image: unknown) => typeof image === "string" && image.startsWith("data:image/");
  if (!Array.isArray(images) || !images.every(isImage)) {
    fail(`${at} has images that are not data: URLs.`);
  }
  if (!Array.isArray(files) || !files.every(isAttachment)) fail(`${at} has damaged "files".`);
  if (!Array.isArray(toolCalls) || !toolCalls.every(isCall)) fail(`${at} has damaged "toolCalls".`);
  for (const name of ["reasoning", "toolCallId", "note", "error"]) {
    if (value[name] !== undefined) requireTypes(value, { [name]: "string" }, at);
  }
  const { figures, tokens } = value;
  if (figures !== undefined && !isFigures(figures)) fail(`${at} has damaged "figures".`);
  if (tokens !== undefined && !isTokens(tokens)) fail(`${at} has damaged "tokens".`);
  return value;
}

const FIGURES = ["promptTokens", "completionTokens", "cachedTokens", "firstTokenMs", "totalMs"];

function isFigures(value: unknown): boolean {
  return isObject(value) && FIGURES.every((name) => typeof value[name] === "number");
}

function isTokens(value: unknown): boolean {
  const isLikely = (token: unknown): token is Record<string, unknown> =>
    isObject(token) && typeof token["token"] === "string" && typeof token["logprob"] === "number";
  const isToken = (token: unknown) => {
    if (!isLikely(token)) return false;
    const others = token["top_logprobs"];
    return Array.isArray(others) && others.every(isLikely);
  };
  return Array.isArray(value) && value.every(isToken);
}

function isAttachment(value: unknown): boolean {
  return isObject(value) && typeof value["name"] === "string" &&
    (typeof value["text"] === "string" || String(value["dataUrl"]).startsWith("data:"));
}

function isCall(value: unknown): boolean {
  return isObject(value) &&
    ["id", "name", "arguments"].every((name) => typeof value[name] === "string");
}

function checkAcyclic(turns: readonly Turn[], title: unknown): void {
  const parents = new Map(turns.map(({ id, parentId }) => [id, parentId]));
  if (parents.size < turns.length) fail(`Conversation "${title}" has two turns with the same id.`);
  const rooted = new Set<string>();
  for (const { id } of turns) {
    const path = new Set<string>();
    for (let at: string | null = id; at !== null && !rooted.has(at); at = parents.get(at)!) {
      if (path.has(at)) fail(`The turns of conversation "${title}" form a cycle.`);
      path.add(at);
    }
    for (const each of path) rooted.add(each);
  }
}

function requireTypes(
  value: Record<string, unknown>,
  types: Readonly<Record<string, "string" | "number">>,
  at: string,
): void {
  for (const [name, type] of Object.entries(types)) {
    const isString = typeof value[name] === "string";
    if (type === "string" ? isString : typeof value[name] === "number") continue;
    fail(`${at} has ${show(value[name])} as "${name}"; wanted a ${type}.`);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

function fail(message: string): never {
  throw new Error(message);
}
