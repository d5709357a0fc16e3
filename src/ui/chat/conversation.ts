/**
 * A conversation beside its turns: its name, its settings, and where its reader is.
 *
 * @module
 */
import { type Message, newId, type Turn } from "./turns.ts";

/** Settings of a conversation's requests. */
export interface ChatSettings {
  readonly system: string;
  /** Numbers by the name of their field; absent ones are the model's defaults. */
  readonly sampling: Readonly<Record<string, number>>;
  /** A JSON schema that answers must follow; empty for none. */
  readonly schema: string;
  /** OpenAI's `tools`, as JSON; empty for none. */
  readonly tools: string;
  readonly showsProbabilities: boolean;
  /** `reasoning_effort`; empty for the model's own. */
  readonly effort: string;
}

/** Nothing set. */
export const DEFAULT_SETTINGS: ChatSettings = {
  system: "",
  sampling: {},
  schema: "",
  tools: "",
  showsProbabilities: false,
  effort: "",
};

/** The settings in what a file or the browser's store holds; what is no setting is left out. */
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

/** What is stored of a conversation beside its turns. */
export interface Conversation {
  readonly id: string;
  readonly title: string;
  /** Whether the user gave it its title. */
  readonly isRenamed?: boolean;
  readonly updatedMs: number;
  /** The turn whose branch is shown; `null` before the first. */
  readonly headId: string | null;
  /** Those of new conversations, if absent. */
  readonly settings?: ChatSettings;
  /** A deleted conversation can be restored for some time. */
  readonly deletedMs?: number;
}

/** An empty conversation. */
export function newConversation(id = newId()): Conversation {
  return { id, title: "New conversation", updatedMs: Date.now(), headId: null };
}

/** A conversation of version 1: a list of messages within it. */
export interface ListedConversation {
  readonly id: string;
  readonly title: string;
  readonly updatedMs: number;
  readonly messages: readonly Message[];
}

/** The same conversation as a tree with one branch. */
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
