/**
 * Changes of conversations that may not be in the database yet. To change what is stored, it has to be read first, and a
 * page that is loaded anew in between has no time for it: what is noted here is there at once, and is made up for later.
 *
 * @module
 */
import type { Conversation } from "./conversation.ts";
import { newId } from "./turns.ts";

const PREFIX = "hearth.unwritten.";

interface Noted {
  /** As it was before. */
  readonly conversation: Conversation;
  readonly fields: Partial<Conversation>;
  /** Names of fields that it has no more. */
  readonly removed: readonly string[];
}

/** A change that was noted and is to be made up for. */
interface UnwrittenChange {
  readonly conversation: Conversation;
  readonly change: (stored: Conversation) => Conversation;
  readonly forget: () => void;
}

/** Notes a change. @returns forgets it, once it is written. */
export function noteChange(before: Conversation, after: Conversation): () => void {
  const old: Readonly<Record<string, unknown>> = { ...before };
  const changed = Object.entries(after).filter(([name, value]) => value !== old[name]);
  const fields = Object.fromEntries(changed);
  const removed = Object.keys(before).filter((name) => !(name in after));
  const key = PREFIX + newId();
  const noted: Noted = { conversation: before, fields, removed };
  try {
    localStorage.setItem(key, JSON.stringify(noted));
  } catch {
    // There is no room: it is written as fast as it can be.
  }
  return () => localStorage.removeItem(key);
}

/** All changes that were noted and not forgotten. */
export function listUnwritten(): UnwrittenChange[] {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
  return keys.map((key) => {
    const { conversation, fields, removed }: Noted = JSON.parse(localStorage.getItem(key)!);
    const isKept = ([name]: [string, unknown]) => !removed.includes(name);
    const change = (stored: Conversation) =>
      Object.fromEntries(
        Object.entries({ ...stored, ...fields }).filter(isKept),
      ) as unknown as Conversation;
    return { conversation, change, forget: () => localStorage.removeItem(key) };
  });
}
