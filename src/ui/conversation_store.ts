/**
 * Stores conversations in this browser (IndexedDB), and imports and exports them as JSON files.
 *
 * @module
 */
import type { Conversation } from "./conversation.ts";

const STORE = "conversations";

let opened: Promise<IDBDatabase> | undefined;

function open(): Promise<IDBDatabase> {
  return opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("hearth", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function run<T>(
  mode: IDBTransactionMode,
  act: (store: IDBObjectStore) => IDBRequest<T>,
): Promise<T> {
  const database = await open();
  return await new Promise((resolve, reject) => {
    const request = act(database.transaction(STORE, mode).objectStore(STORE));
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** All of them, the newest first. */
export async function loadConversations(): Promise<Conversation[]> {
  const all = await run<Conversation[]>("readonly", (store) => store.getAll());
  return all.sort((a, b) => b.updatedMs - a.updatedMs);
}

/** Stores one, replacing an older version. */
export async function saveConversation(conversation: Conversation): Promise<void> {
  await run("readwrite", (store) => store.put(conversation));
}

/** Deletes one. */
export async function deleteConversation(id: string): Promise<void> {
  await run("readwrite", (store) => store.delete(id));
}

/** All conversations as a JSON file. */
export function exportFile(conversations: readonly Conversation[]): Blob {
  const text = JSON.stringify({ format: "hearth-conversations", version: 1, conversations });
  return new Blob([text], { type: "application/json" });
}

/** @throws {Error} when the file is not one that {@linkcode exportFile} made. */
export async function readExport(file: Blob): Promise<Conversation[]> {
  const wanted = "This is not a file of exported conversations.";
  let content: { format?: unknown; conversations?: unknown } | null;
  try {
    content = JSON.parse(await file.text());
  } catch {
    throw new Error(wanted);
  }
  const { format, conversations } = content ?? {};
  if (format !== "hearth-conversations" || !Array.isArray(conversations)) throw new Error(wanted);
  if (!conversations.every(isConversation)) {
    throw new Error("The file's conversations are damaged.");
  }
  return conversations;
}

function isConversation(value: unknown): value is Conversation {
  const { id, title, updatedMs, messages } = (value ?? {}) as Partial<Conversation>;
  return typeof id === "string" && typeof title === "string" && typeof updatedMs === "number" &&
    Array.isArray(messages) &&
    messages.every((message) =>
      typeof message?.id === "string" && typeof message.text === "string" &&
      ["user", "assistant", "tool"].includes(message.role)
    );
}
