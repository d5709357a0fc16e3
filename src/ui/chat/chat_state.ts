/**
 * The state of the chat page: the conversations, the open one, its address, and the answers being written in this tab
 * and in others. Tabs tell each other what they store and which answers they are writing. Components observe the state.
 *
 * @module
 */
import { useEffect, useState } from "preact/hooks";
import {
  type Conversation,
  type Draft,
  findPathThrough,
  newConversation,
  newId,
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
export function makeInitialState(): ChatState {
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

/** Finds the turns to show. */
export function findShownPath({ turns, open }: ChatState): Turn[] {
  return findPathThrough(turns, open.headId);
}

/** Finds the turns from the first one to the one with this id. */
export function findPathTo({ turns }: ChatState, id: string): Turn[] {
  const path = findPathThrough(turns, id);
  return path.slice(0, path.findIndex((turn) => turn.id === id) + 1);
}

/** Finds the id of the last turn shown, leaving out a question that is being answered in another tab. */
export function findPathEnd(state: ChatState): string | null {
  const path = findShownPath(state);
  const elsewhere = path.findIndex(({ id }) => state.writtenElsewhere.has(id));
  return (elsewhere < 0 ? path.at(-1)?.id : path[elsewhere]!.parentId) ?? null;
}

/** The conversation id in the page's address. */
export function readConversationId(): string | undefined {
  return location.hash.match(/^#\/c\/([\w-]{1,64})$/)?.[1];
}

/**
 * Puts a conversation's address into the address bar: as a new entry of the browser's history, or in place of the
 * current entry.
 */
export function showConversationId(id: string, { replaces = false } = {}): void {
  if (readConversationId() === id) return;
  const url = `${location.pathname}${location.search}#/c/${id}`;
  if (replaces) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
}

/**
 * Calls `onChange` when the user goes back, forward, or to another address of the page.
 *
 * @returns a function that stops this.
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

/**
 * How often a tab announces the answers that it is writing. It repeats this because a tab that is closed cannot
 * announce the end of an answer.
 */
const ANNOUNCE_EVERY_MS = 1000;
/** How long an announcement is valid in other tabs. */
const VALID_MS = 3500;

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

/** Announces the answers that this tab is writing, by the ids of the turns that they follow. */
export class OwnWriting {
  #ids: readonly string[] = [];
  #timer: number | undefined;

  /** Announces these ids to the other tabs again and again, until the next call. */
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
 * @param options.onChange called with the id of each conversation that another tab has written to.
 * @param options.onWriting called, when they change, with the ids of all turns whose answers other tabs are writing.
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
    timers.set(data.tab, Number(setTimeout(() => hear(data.tab, []), VALID_MS)));
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

  /** Calls `listener` after each change. @returns a function that stops this. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** Returns the current value. The calling component renders again when the value changes. */
export function useObserved<Value>(observed: Observed<Value>): Value {
  const [value, setValue] = useState(observed.value);
  useEffect(() => {
    const follow = () => setValue(observed.value);
    follow();
    return observed.subscribe(follow);
  }, [observed]);
  return value;
}
