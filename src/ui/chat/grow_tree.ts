/**
 * Conversations as the page's first version kept them: lists of messages.
 *
 * @module
 */
import type { Conversation } from "./conversation.ts";
import { type Message, newId, type Turn } from "./turns.ts";

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
