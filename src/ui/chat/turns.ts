/**
 * A conversation is a tree of turns: an edited question or a regenerated answer is a sibling of the earlier one. One
 * path through the tree is shown.
 *
 * @module
 */

/** A function call that the model asks for. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** The arguments as JSON, as the model wrote them. */
  readonly arguments: string;
}

/** A token with its log-probability and the likeliest alternatives. */
export interface TokenChoice {
  readonly token: string;
  readonly logprob: number;
  readonly top_logprobs: readonly { readonly token: string; readonly logprob: number }[];
}

/** Number of tokens and duration of an answer. */
export interface AnswerFigures {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly firstTokenMs: number;
  readonly totalMs: number;
}

/** A document attached to a question: text that the page has read, or a PDF as a `data:` URL. */
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
  /** How the answer ended, if not normally. */
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
  /** When the turn was deleted. It is hidden with all turns that follow it, and can be restored. */
  readonly deletedMs?: number;
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

/** The turns that directly follow `parentId`, the oldest first. */
export function listChildren(turns: readonly Turn[], parentId: string | null): Turn[] {
  return turns.filter((turn) => turn.parentId === parentId && turn.deletedMs === undefined)
    .sort((a, b) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1));
}

/** Id of the end of the newest branch that begins with `id`, or of the whole tree if `id` is `null`. */
export function newestLeaf(turns: readonly Turn[], id: string | null): string | null {
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

/** The turns from the first one to the end of the newest branch through `headId`. */
export function pathThrough(turns: readonly Turn[], headId: string | null): Turn[] {
  const byId = new Map(turns.map((turn) => [turn.id, turn]));
  const path: Turn[] = [];
  let turn = byId.get(newestLeaf(turns, liveAncestor(byId, headId)) ?? "");
  for (; turn !== undefined; turn = byId.get(turn.parentId ?? "")) path.push(turn);
  return path.reverse();
}

/** The last turn on the path to `id` that is not deleted, nor follows a deleted one. */
function liveAncestor(byId: ReadonlyMap<string, Turn>, id: string | null): string | null {
  let live = byId.has(id ?? "") ? id : null;
  for (let turn = byId.get(id ?? ""); turn; turn = byId.get(turn.parentId ?? "")) {
    if (turn.deletedMs !== undefined) live = turn.parentId;
  }
  return live;
}

/** The turns after replacing or adding one. */
export function withTurn(turns: readonly Turn[], turn: Turn): readonly Turn[] {
  const index = turns.findIndex(({ id }) => id === turn.id);
  return index < 0 ? [...turns, turn] : turns.with(index, turn);
}

/** A title: the first words of the user's first message. */
export function makeTitle(messages: readonly Message[]): string {
  const { text = "", images = [], files = [] } = messages.find(({ role }) => role === "user") ?? {};
  const title = text.trim() || files[0]?.name || (images.length > 0 ? "Image" : "New conversation");
  return title.length > 60 ? `${title.slice(0, 59)}…` : title;
}
