/**
 * The state of the chat page: the conversations, the open one, its address, and the answers being written in this tab
 * and others. Tabs tell each other what they store and write. Components observe values.
 *
 * @module
 */
import { useEffect, useState } from "preact/hooks";
import {
  type Conversation,
  type Draft,
  newConversation,
  newId,
  pathThrough,
  type Turn,
} from "./conversation.ts";

/** The state to show. */
export interface ChatState {
  /** Whether the stored conversations have been read. */
  readonly isLoaded: boolean;
  /** Stored conversations including deleted ones, the newest first. */
  readonly conversations: readonly Conversation[];
  readonly drafts: ReadonlyMap<string, Draft>;
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

/** Id of the last turn shown, not counting a question from another tab that waits for its answer. */
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

/** A tab that is writing an answer announces it this often, since a tab that is closed cannot announce the end. */
const ANNOUNCE_EVERY_MS = 1000;
/** How long the other tabs believe an announcement. */
const BELIEVED_MS = 3500;

type Announcement =
  | { readonly changed: string }
  | { readonly tab: string; readonly writing: readonly string[] };

const channel = new BroadcastChannel("hearth.conversations");
const ownTab = newId();

function announce(announcement: Announcement): void {
  channel.postMessage(announcement);
}

/** Tells the other tabs that a conversation or turns of it were stored. */
export function announceChange(conversationId: string): void {
  announce({ changed: conversationId });
}

/** The answers that this tab is writing, by the ids of the turns that they follow. */
export class OwnWriting {
  #ids: readonly string[] = [];
  #timer: number | undefined;

  /** Announces these ids to the other tabs, until others are set. */
  set(ids: readonly string[]): void {
    clearInterval(this.#timer);
    const hadAny = this.#ids.length > 0;
    this.#ids = ids;
    if (ids.length === 0 && !hadAny) return;
    const announceWriting = () => announce({ tab: ownTab, writing: this.#ids });
    announceWriting();
    if (ids.length > 0) this.#timer = Number(setInterval(announceWriting, ANNOUNCE_EVERY_MS));
  }
}

/**
 * Listens to other tabs.
 *
 * @param listen.onChange called with the id of each conversation that another tab has written to.
 * @param listen.onWriting called with the ids of all turns whose answers other tabs are writing, when they change.
 */
export function followOtherTabs({ onChange, onWriting }: {
  readonly onChange: (conversationId: string) => void;
  readonly onWriting: (ids: ReadonlySet<string>) => void;
}): void {
  const tabs = new Map<string, readonly string[]>();
  const timers = new Map<string, number>();
  let known = "";
  const hear = (tab: string, ids: readonly string[]) => {
    if (ids.length > 0) tabs.set(tab, ids);
    else tabs.delete(tab);
    const all = [...tabs.values()].flat();
    if (all.join() === known) return;
    known = all.join();
    onWriting(new Set(all));
  };
  channel.addEventListener("message", ({ data }: MessageEvent<Announcement>) => {
    if ("changed" in data) return onChange(data.changed);
    clearTimeout(timers.get(data.tab));
    timers.set(data.tab, Number(setTimeout(() => hear(data.tab, []), BELIEVED_MS)));
    hear(data.tab, data.writing);
  });
}

/** A value that informs its listeners of each change. */
export class Observed<Value> {
  #value: Value;
  readonly #listeners = new Set<() => void>();

  constructor(value: Value) {
    this.#value = value;
  }

  get value(): Value {
    return this.#value;
  }

  set value(next: Value) {
    this.#value = next;
    for (const listener of this.#listeners) listener();
  }

  /** Calls `listener` after each change. Returns a function that ends this. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** The current value. The calling component renders again when it changes. */
export function useObserved<Value>(observed: Observed<Value>): Value {
  const [value, setValue] = useState(observed.value);
  useEffect(() => {
    const follow = () => setValue(observed.value);
    follow();
    return observed.subscribe(follow);
  }, [observed]);
  return value;
}
