/**
 * Keeps changes to conversations until they are in the database. Changing a stored conversation requires reading it
 * first, for which a closing page has no time. So each change is stored here at once, and is applied at the next visit
 * if it did not reach the database.
 *
 * @module
 */
import type { Conversation } from "./conversation.ts";
import { newId } from "./turns.ts";

const PREFIX = "hearth.unwritten.";

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
 * Stores a change.
 *
 * @returns a function that removes it, to be called when it is written.
 */
export function storeChange(before: Conversation, after: Conversation): () => void {
  const old: Readonly<Record<string, unknown>> = { ...before };
  const changed = Object.entries(after).filter(([name, value]) => value !== old[name]);
  const fields = Object.fromEntries(changed);
  const removed = Object.keys(before).filter((name) => !(name in after));
  const key = PREFIX + newId();
  const noted: StoredChange = { conversation: before, fields, removed };
  try {
    localStorage.setItem(key, JSON.stringify(noted));
  } catch {
    // The storage is full: the change depends on reaching the database in time.
  }
  return () => localStorage.removeItem(key);
}

/** All stored changes. */
export function listUnwritten(): UnwrittenChange[] {
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
