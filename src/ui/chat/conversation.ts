/**
 * A conversation: its title, its settings, and its tree of turns, of which one path is shown. An edited question or a
 * regenerated answer is a sibling of the earlier one.
 *
 * @module
 */

/** A function call that the model asks for. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** The arguments, in the JSON that the model wrote. */
  readonly arguments: string;
}

/** A token with its log-probability and the likeliest alternatives. */
export interface TokenChoice {
  readonly token: string;
  readonly logprob: number;
  readonly top_logprobs: readonly { readonly token: string; readonly logprob: number }[];
}

/** Numbers of tokens and durations of an answer. */
export interface AnswerFigures {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly firstTokenMs: number;
  readonly totalMs: number;
}

/** A file attached to a question: text that the page has read, or a PDF or recording as a `data:` URL. */
export type Attachment =
  | { readonly name: string; readonly text: string }
  | { readonly name: string; readonly dataUrl: string };

/** The content of one turn. */
export interface Message {
  readonly id: string;
  readonly role: "user" | "assistant" | "tool";
  readonly text: string;
  /** Images as `data:` URLs. */
  readonly images?: readonly string[];
  readonly files?: readonly Attachment[];
  readonly reasoning?: string;
  readonly toolCalls?: readonly ToolCall[];
  /** The call to which a tool's result belongs. */
  readonly toolCallId?: string;
  readonly figures?: AnswerFigures;
  readonly tokens?: readonly TokenChoice[];
  /** A remark for the user, such as how the answer ended. */
  readonly note?: string;
  readonly error?: string;
}

/** A message and its position in the tree. */
export interface Turn extends Message {
  readonly conversationId: string;
  /** Id of the turn before it; `null` for the first turn. */
  readonly parentId: string | null;
  readonly createdMs: number;
  /** Whether the answer was stored before it was complete. */
  readonly isUnfinished?: boolean;
  /** Time when the turn was deleted. A deleted turn and all turns that follow it are hidden, and can be restored. */
  readonly deletedMs?: number;
}

/** A message that is not sent yet. */
export interface Draft {
  readonly conversationId: string;
  readonly text: string;
  readonly images: readonly string[];
  readonly files: readonly Attachment[];
}

/** Makes a unique id. Pages served over plain `http://` have no `crypto.randomUUID`. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Makes a turn that follows `parentId`. */
export function newTurn(
  message: Omit<Message, "id">,
  { conversationId, parentId }: Pick<Turn, "conversationId" | "parentId">,
): Turn {
  return { ...message, id: newId(), conversationId, parentId, createdMs: Date.now() };
}

/** Lists the turns that directly follow `parentId`, the oldest first. */
export function listChildren(turns: readonly Turn[], parentId: string | null): Turn[] {
  return turns.filter((turn) => turn.parentId === parentId && turn.deletedMs === undefined)
    .sort((a, b) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1));
}

/** Finds the last turn of the newest branch that begins with `id`, or of the whole tree if `id` is `null`. */
export function findNewestLeaf(turns: readonly Turn[], id: string | null): string | null {
  let leaf = id;
  for (
    let child = listChildren(turns, id).at(-1);
    child;
    child = listChildren(turns, leaf).at(-1)
  ) {
    leaf = child.id;
  }
  return leaf;
}

/** Finds the turns from the first one to the end of the newest branch through `headId`. */
export function findPathThrough(turns: readonly Turn[], headId: string | null): Turn[] {
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  const path: Turn[] = [];
  let turn = byId.get(findNewestLeaf(turns, findLiveAncestor(byId, headId)) ?? "");
  for (; turn !== undefined; turn = byId.get(turn.parentId ?? "")) path.push(turn);
  return path.reverse();
}

/** Finds the last turn on the path to `id` that is not deleted and does not follow a deleted one. */
function findLiveAncestor(byId: ReadonlyMap<string, Turn>, id: string | null): string | null {
  let live = byId.has(id ?? "") ? id : null;
  for (let turn = byId.get(id ?? ""); turn; turn = byId.get(turn.parentId ?? "")) {
    if (turn.deletedMs !== undefined) live = turn.parentId;
  }
  return live;
}

/** Leaves out deleted turns and the turns that follow them. The head moves to the last turn before them. */
export function removeDeleted(
  turns: readonly Turn[],
  headId: string | null,
): { readonly turns: readonly Turn[]; readonly headId: string | null } {
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  return {
    turns: turns.filter(({ id }) => findLiveAncestor(byId, id) === id),
    headId: findLiveAncestor(byId, headId),
  };
}

/** Returns the turns with one of them replaced by `turn`, or with `turn` added. */
export function putTurn(turns: readonly Turn[], turn: Turn): readonly Turn[] {
  const index = turns.findIndex(({ id }) => id === turn.id);
  return index < 0 ? [...turns, turn] : turns.with(index, turn);
}

/** Makes a title from the first words of the user's first message, or from its files. */
export function makeTitle(messages: readonly Message[]): string {
  const { text = "", images = [], files = [] } = messages.find(({ role }) => role === "user") ?? {};
  const title = text.trim() || files[0]?.name || (images.length > 0 ? "Image" : "New conversation");
  return title.length > 60 ? `${title.slice(0, 59)}…` : title;
}

/** Settings of a conversation's requests. */
export interface ChatSettings {
  readonly system: string;
  /** Values by the name of their field. For an absent field, the model's default is used. */
  readonly sampling: Readonly<Record<string, number>>;
  /** A JSON schema for the answers; empty if there is none. */
  readonly schema: string;
  /** OpenAI's `tools` as JSON; empty if there are none. */
  readonly tools: string;
  readonly showsProbabilities: boolean;
  /** `reasoning_effort`; empty for the model's default. */
  readonly effort: string;
}

/** Settings that leave everything at its default. */
export const DEFAULT_SETTINGS: ChatSettings = {
  system: "",
  sampling: {},
  schema: "",
  tools: "",
  showsProbabilities: false,
  effort: "",
};

/** Reads settings from a file or from the browser's storage. Anything that is not a valid setting is left out. */
export function readSettings(value: unknown): ChatSettings {
  const given = (value ?? {}) as Record<string, unknown>;
  const known = Object.entries(DEFAULT_SETTINGS).map(([name, usual]) => {
    const isRight = typeof given[name] === typeof usual && given[name] !== null;
    return [name, isRight ? given[name] : usual];
  });
  const settings = Object.fromEntries(known) as unknown as ChatSettings;
  const numbers = Object.entries(settings.sampling).filter(([, each]) => typeof each === "number");
  return { ...settings, sampling: Object.fromEntries(numbers) };
}

/** A conversation without its turns, as it is stored. */
export interface Conversation {
  readonly id: string;
  readonly title: string;
  /** Whether the user has set the title. */
  readonly isRenamed?: boolean;
  readonly updatedMs: number;
  /** Id of the turn whose branch is shown; `null` before the first turn. */
  readonly headId: string | null;
  /** The settings. If absent, those of new conversations are used. */
  readonly settings?: ChatSettings;
  /** Time when the conversation was deleted. It can be restored for 30 days. */
  readonly deletedMs?: number;
}

export function newConversation(id = newId()): Conversation {
  return { id, title: "New conversation", updatedMs: Date.now(), headId: null };
}

/** A conversation in version 1 of the format, which contains a list of messages. */
export interface ListedConversation {
  readonly id: string;
  readonly title: string;
  readonly updatedMs: number;
  readonly messages: readonly Message[];
}

/** Converts a conversation of version 1 to a tree with one branch. */
export function growTree(
  { messages, ...listed }: ListedConversation,
): { readonly conversation: Conversation; readonly turns: readonly Turn[] } {
  const turns: Turn[] = [];
  const ids = new Set<string>();
  messages.forEach((message, index) => {
    const id = ids.has(message.id) ? newId() : message.id;
    ids.add(id);
    turns.push({
      ...message,
      id,
      conversationId: listed.id,
      parentId: turns.at(-1)?.id ?? null,
      createdMs: listed.updatedMs - messages.length + index,
    });
  });
  return { conversation: { ...listed, headId: turns.at(-1)?.id ?? null }, turns };
}
