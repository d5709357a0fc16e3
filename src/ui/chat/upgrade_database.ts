/**
 * Upgrades the database of an earlier version of the page.
 *
 * @module
 */
import { growTree, type ListedConversation } from "./conversation.ts";

/** Called within the transaction of the upgrade. */
export function upgradeDatabase(request: IDBOpenDBRequest, oldVersion: number): void {
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
