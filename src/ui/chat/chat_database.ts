/**
 * Stores conversations, their turns and their drafts in this browser (IndexedDB).
 *
 * Each turn is a record of its own, and conversations are changed field by field within a transaction, so several tabs
 * can write to one conversation without undoing each other's work. Tabs tell each other what they wrote.
 *
 * A stored conversation must be read before it is changed, and a closing page has no time for that. So each change is
 * also kept in local storage until it is in the database. If the page closes before that, the next visit applies it.
 *
 * @module
 */
import {
  type Conversation,
  type Draft,
  growTree,
  type ListedConversation,
  newId,
  type Turn,
} from "./conversation.ts";
import { announceChange } from "./chat_state.ts";

type StoreName = "conversations" | "turns" | "drafts";

const VERSION = 2;
/** Days after which a deleted conversation is removed for good, with all its turns. */
const KEPT_DAYS = 30;

let opened: Promise<IDBDatabase> | undefined;
/** The open database. It is kept because a page that is about to close has no time to open it. */
let database: IDBDatabase | undefined;

function open(): Promise<IDBDatabase> {
  return opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("hearth", VERSION);
    const fail = (message: string) => {
      opened = undefined;
      reject(new Error(message));
    };
    request.onupgradeneeded = ({ oldVersion }) => upgradeDatabase(request, oldVersion);
    request.onblocked = () =>
      reject(
        new Error(
          "Another tab has an older version of this page open. Close or reload that tab, then reload this one.",
        ),
      );
    request.onerror = () => fail(`Conversations cannot be stored: ${request.error?.message}`);
    request.onsuccess = () => {
      database = request.result;
      const forget = () => opened = database = undefined;
      // A newer version of the page in another tab wants to upgrade the database.
      database.onversionchange = () => {
        request.result.close();
        forget();
      };
      database.onclose = forget;
      resolve(database);
    };
  });
}

/** Runs `act` in a transaction. When that is complete, resolves to the result of the request that `act` returns. */
async function transact<T>(
  stores: StoreName[],
  mode: IDBTransactionMode,
  act: (store: (name: StoreName) => IDBObjectStore) => IDBRequest<T> | void,
): Promise<T> {
  const transaction = (database ?? await open()).transaction(stores, mode);
  return await new Promise((resolve, reject) => {
    const request = act((name) => transaction.objectStore(name));
    transaction.oncomplete = () => resolve(request?.result as T);
    transaction.onabort = () => reject(describeFailure(transaction.error));
  });
}

function describeFailure(error: DOMException | null): Error {
  return error?.name === "QuotaExceededError"
    ? new Error(
      "The browser's storage is full. Export conversations, delete those that you do not need, then try again.",
    )
    : new Error(
      `The conversation was not stored: ${error?.message ?? "the browser gave no reason"}`,
    );
}

/** Loads all conversations including deleted ones, the newest first. */
export async function loadConversations(): Promise<Conversation[]> {
  const all = await transact<Conversation[]>(
    ["conversations"],
    "readonly",
    (store) => store("conversations").getAll(),
  );
  return all.sort((a, b) => b.updatedMs - a.updatedMs);
}

/** Loads all turns of a conversation, including deleted ones. */
export function loadTurns(conversationId: string): Promise<Turn[]> {
  return transact<Turn[]>(
    ["turns"],
    "readonly",
    (store) => store("turns").getAll(toKeyRange(conversationId)),
  );
}

export function loadAllTurns(): Promise<Turn[]> {
  return transact<Turn[]>(["turns"], "readonly", (store) => store("turns").getAll());
}

/** The range of keys of a conversation's turns. A key is the conversation's id and the turn's id. */
function toKeyRange(conversationId: string): IDBKeyRange {
  return IDBKeyRange.bound([conversationId], [conversationId, []]);
}

/** Computes a conversation's new state from its stored state. */
export type Change = (stored: Conversation) => Conversation;

/**
 * Changes a conversation. If the page closes before the change is written, the next visit writes it.
 *
 * @param conversation the conversation to change. If none with its id is stored, the change is applied to this one.
 */
export async function changeConversation(
  conversation: Conversation,
  change: Change,
): Promise<void> {
  const forget = storeChange(conversation, change(conversation));
  await writeChange(conversation, change).finally(forget);
}

/** Writes the changes that earlier visits had no time to write. */
export async function finishChanges(): Promise<void> {
  for (const { conversation, change, forget } of listUnwritten()) {
    await writeChange(conversation, change);
    forget();
  }
}

async function writeChange(conversation: Conversation, change: Change): Promise<void> {
  await transact(["conversations"], "readwrite", (store) => {
    const conversations = store("conversations");
    const before: IDBRequest<Conversation | undefined> = conversations.get(conversation.id);
    before.onsuccess = () => conversations.put(change(before.result ?? conversation));
  });
  announceChange(conversation.id);
}

/** Stores a turn in place of an earlier one with its id. It is written even if the page is about to close. */
export async function saveTurn(turn: Turn): Promise<void> {
  await transact(["turns"], "readwrite", (store) => {
    store("turns").put(turn).transaction!.commit();
  });
  announceChange(turn.conversationId);
}

/**
 * Adds turns and conversations that are not stored yet. Stored ones are unchanged, but deleted conversations are
 * restored.
 */
export async function addMissing(
  conversations: readonly Conversation[],
  turns: readonly Turn[],
): Promise<void> {
  await transact(["conversations", "turns"], "readwrite", (store) => {
    for (const turn of turns) addUnlessThere(store("turns"), turn);
    for (const conversation of conversations) {
      const before: IDBRequest<Conversation | undefined> = store("conversations").get(
        conversation.id,
      );
      before.onsuccess = () => {
        const { deletedMs: _, ...kept } = before.result ?? conversation;
        store("conversations").put(kept);
      };
    }
  });
  for (const { id } of conversations) announceChange(id);
}

function addUnlessThere(store: IDBObjectStore, value: Turn): void {
  const request = store.add(value);
  request.onerror = (event) => {
    if (request.error?.name !== "ConstraintError") return;
    // A turn that is stored already must not abort the transaction.
    event.preventDefault();
    event.stopPropagation();
  };
}

/** Removes for good the conversations that were deleted long ago. */
export async function purgeDeleted(): Promise<void> {
  const beforeMs = Date.now() - KEPT_DAYS * 24 * 3_600_000;
  const old = (await loadConversations()).filter(({ deletedMs }) => deletedMs! < beforeMs);
  if (old.length === 0) return;
  await transact(["conversations", "turns", "drafts"], "readwrite", (store) => {
    for (const { id } of old) {
      store("conversations").delete(id);
      store("turns").delete(toKeyRange(id));
      store("drafts").delete(id);
    }
  });
}

export function loadDrafts(): Promise<Draft[]> {
  return transact<Draft[]>(["drafts"], "readonly", (store) => store("drafts").getAll());
}

/** Stores a draft, or removes it if it is empty. It is written even if the page is about to close. */
export async function saveDraft(draft: Draft): Promise<void> {
  const isEmpty = draft.text === "" && draft.images.length + draft.files.length === 0;
  await transact(["drafts"], "readwrite", (store) => {
    const drafts = store("drafts");
    if (isEmpty) drafts.delete(draft.conversationId);
    else drafts.put(draft);
    drafts.transaction.commit();
  });
}

/** Finds the ids of conversations with a turn that contains `text`, ignoring case. */
export async function searchTurns(text: string): Promise<Set<string>> {
  const wanted = text.toLowerCase();
  const found = new Set<string>();
  await transact(["turns"], "readonly", (store) => {
    const request = store("turns").openCursor();
    request.onsuccess = () => {
      const cursor = request.result;
      if (cursor === null) return;
      const turn = cursor.value as Turn;
      if (turn.deletedMs === undefined && turn.text.toLowerCase().includes(wanted)) {
        found.add(turn.conversationId);
      }
      cursor.continue();
    };
  });
  return found;
}

/** Upgrades the database of an earlier version of the page, within the transaction of the upgrade. */
function upgradeDatabase(request: IDBOpenDBRequest, oldVersion: number): void {
  const { result: database, transaction } = request;
  database.createObjectStore("turns", { keyPath: ["conversationId", "id"] });
  database.createObjectStore("drafts", { keyPath: "conversationId" });
  if (oldVersion === 0) {
    database.createObjectStore("conversations", { keyPath: "id" });
    return;
  }
  const conversations = transaction!.objectStore("conversations");
  const cursors = conversations.openCursor();
  cursors.onsuccess = () => {
    const cursor = cursors.result;
    if (cursor === null) return;
    const { conversation, turns } = growTree(cursor.value as ListedConversation);
    cursor.update(conversation);
    for (const turn of turns) transaction!.objectStore("turns").add(turn);
    cursor.continue();
  };
}

/** Prefix of the keys of changes in local storage. */
const PREFIX = "hearth.unwritten.";

/** A change as local storage holds it. */
interface StoredChange {
  /** The conversation before the change. */
  readonly conversation: Conversation;
  readonly fields: Partial<Conversation>;
  /** Names of the fields that were removed. */
  readonly removed: readonly string[];
}

/** A change that is not in the database yet. */
interface UnwrittenChange {
  readonly conversation: Conversation;
  readonly change: (stored: Conversation) => Conversation;
  readonly forget: () => void;
}

/**
 * Keeps a change in local storage.
 *
 * @returns a function that removes the change from there, to be called when the database has it.
 */
function storeChange(before: Conversation, after: Conversation): () => void {
  const old: Readonly<Record<string, unknown>> = { ...before };
  const changed = Object.entries(after).filter(([name, value]) => value !== old[name]);
  const fields = Object.fromEntries(changed);
  const removed = Object.keys(before).filter((name) => !(name in after));
  const key = PREFIX + newId();
  const noted: StoredChange = { conversation: before, fields, removed };
  try {
    localStorage.setItem(key, JSON.stringify(noted));
  } catch {
    // Local storage is full: the change is lost if the page closes before the database has it.
  }
  return () => localStorage.removeItem(key);
}

/** Lists the changes in local storage. */
function listUnwritten(): UnwrittenChange[] {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
  return keys.map((key) => {
    const { conversation, fields, removed }: StoredChange = JSON.parse(localStorage.getItem(key)!);
    const isKept = ([name]: [string, unknown]) => !removed.includes(name);
    const change = (stored: Conversation) =>
      Object.fromEntries(
        Object.entries({ ...stored, ...fields }).filter(isKept),
      ) as unknown as Conversation;
    return { conversation, change, forget: () => localStorage.removeItem(key) };
  });
}
