/**
 * The state of the chat page: the conversations, the open one, its address, and the answers being written.
 *
 * @module
 */
import type { Draft } from "./chat_database.ts";
import { type Conversation, newConversation } from "./conversation.ts";
import { pathThrough, type Turn } from "./turns.ts";

/** The state to show. */
export interface ChatState {
  /** Whether the stored conversations have been read. */
  readonly isLoaded: boolean;
  /** Stored conversations including deleted ones, the newest first. */
  readonly conversations: readonly Conversation[];
  readonly drafts: ReadonlyMap<string, Draft>;
  /** The open conversation. */
  readonly open: Conversation;
  /** All turns of the open conversation. */
  readonly turns: readonly Turn[];
  /** Ids of conversations with an answer that is being written in this tab. */
  readonly answering: ReadonlySet<string>;
  /** Ids of turns whose answers are being written in another tab. */
  readonly writtenElsewhere: ReadonlySet<string>;
  /** Error messages by conversation. */
  readonly failures: ReadonlyMap<string, string>;
  /** The turn of the open conversation that was deleted last. */
  readonly deletedTurn: Turn | undefined;
}

/** The state before anything is loaded, with an empty open conversation. */
export function initialState(): ChatState {
  return {
    isLoaded: false,
    conversations: [],
    drafts: new Map(),
    open: newConversation(),
    turns: [],
    answering: new Set(),
    writtenElsewhere: new Set(),
    failures: new Map(),
    deletedTurn: undefined,
  };
}

/** The turns to show. */
export function shownPath({ turns, open }: ChatState): Turn[] {
  return pathThrough(turns, open.headId);
}

/** The turns from the first one to the one with this id. */
export function pathTo({ turns }: ChatState, id: string): Turn[] {
  const path = pathThrough(turns, id);
  return path.slice(0, path.findIndex((turn) => turn.id === id) + 1);
}

/** Id of the last turn shown. A question that another tab has added, and that waits for its answer, does not count. */
export function findPathEnd(state: ChatState): string | null {
  const path = shownPath(state);
  const elsewhere = path.findIndex(({ id }) => state.writtenElsewhere.has(id));
  return (elsewhere < 0 ? path.at(-1)?.id : path[elsewhere]!.parentId) ?? null;
}

/** The conversation id in the page's address. */
export function readConversationId(): string | undefined {
  return location.hash.match(/^#\/c\/([\w-]{1,64})$/)?.[1];
}

/**
 * Puts a conversation's address into the address bar, as a new entry of the browser's history or replacing the last
 * one.
 */
export function showConversationId(id: string, { replaces = false } = {}): void {
  if (readConversationId() === id) return;
  const url = `${location.pathname}${location.search}#/c/${id}`;
  if (replaces) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
}

/**
 * Calls `onChange` when the user goes back, forward, or to another address of the page. Returns a function that ends
 * this.
 */
export function followAddress(onChange: (id: string | undefined) => void): () => void {
  const listen = () => onChange(readConversationId());
  addEventListener("popstate", listen);
  addEventListener("hashchange", listen);
  return () => {
    removeEventListener("popstate", listen);
    removeEventListener("hashchange", listen);
  };
}
