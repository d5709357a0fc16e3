/**
 * What the chat page shows: the conversations, the one that is open, and the answers that are being written.
 *
 * @module
 */
import type { Draft } from "./chat_database.ts";
import { type Conversation, newConversation } from "./conversation.ts";
import { pathThrough, type Turn } from "./turns.ts";

/** What is shown. */
export interface ChatState {
  /** Whether the stored conversations have been read. */
  readonly isLoaded: boolean;
  /** Stored ones, deleted ones among them, the newest first. */
  readonly conversations: readonly Conversation[];
  readonly drafts: ReadonlyMap<string, Draft>;
  /** The open conversation. */
  readonly open: Conversation;
  /** All turns of the open conversation. */
  readonly turns: readonly Turn[];
  /** Ids of conversations with an answer that is being written here. */
  readonly answering: ReadonlySet<string>;
  /** Ids of turns whose answer is being written in another tab. */
  readonly writtenElsewhere: ReadonlySet<string>;
  /** What went wrong, by conversation. */
  readonly failures: ReadonlyMap<string, string>;
  /** The turn of the open conversation that was deleted last. */
  readonly deletedTurn: Turn | undefined;
}

/** Nothing is loaded, and an empty conversation is open. */
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

/** The turns that are shown. */
export function shownPath({ turns, open }: ChatState): Turn[] {
  return pathThrough(turns, open.headId);
}

/** The turns from the first to the one of this id. */
export function pathTo({ turns }: ChatState, id: string): Turn[] {
  const path = pathThrough(turns, id);
  return path.slice(0, path.findIndex((turn) => turn.id === id) + 1);
}

/** The end of what is shown, without a question that another tab has added and waits to be answered. */
export function endOfPath(state: ChatState): string | null {
  const path = shownPath(state);
  const elsewhere = path.findIndex(({ id }) => state.writtenElsewhere.has(id));
  return (elsewhere < 0 ? path.at(-1)?.id : path[elsewhere]!.parentId) ?? null;
}
