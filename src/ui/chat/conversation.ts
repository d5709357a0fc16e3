/**
 * A conversation without its turns: its title, its settings, and the branch that is shown.
 *
 * @module
 */
import { type Message, newId, type Turn } from "./turns.ts";

/** Settings of a conversation's requests. */
export interface ChatSettings {
  readonly system: string;
  /** Numbers by the name of their field; the model's default if absent. */
  readonly sampling: Readonly<Record<string, number>>;
  /** A JSON schema for the answers; empty if there is none. */
  readonly schema: string;
  /** OpenAI's `tools` as JSON; empty if there are none. */
  readonly tools: string;
  readonly showsProbabilities: boolean;
  /** `reasoning_effort`; empty for the model's default. */
  readonly effort: string;
}

/** Settings that leave everything at its default. */
export const DEFAULT_SETTINGS: ChatSettings = {
  system: "",
  sampling: {},
  schema: "",
  tools: "",
  showsProbabilities: false,
  effort: "",
};

/** Reads settings from the content of a file or of the browser's storage; whatever is not a setting is left out. */
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

/** What is stored of a conversation besides its turns. */
export interface Conversation {
  readonly id: string;
  readonly title: string;
  /** Whether the user has set the title. */
  readonly isRenamed?: boolean;
  readonly updatedMs: number;
  /** Id of the turn whose branch is shown; `null` before the first turn. */
  readonly headId: string | null;
  /** The settings; those of new conversations if absent. */
  readonly settings?: ChatSettings;
  /** When it was deleted. It can be restored for some time. */
  readonly deletedMs?: number;
}

/** Makes an empty conversation. */
export function newConversation(id = newId()): Conversation {
  return { id, title: "New conversation", updatedMs: Date.now(), headId: null };
}

/** A conversation in version 1 of the format, which contains a list of messages. */
export interface ListedConversation {
  readonly id: string;
  readonly title: string;
  readonly updatedMs: number;
  readonly messages: readonly Message[];
}

/** Converts the conversation to a tree with one branch. */
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
