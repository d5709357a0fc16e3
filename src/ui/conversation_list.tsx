/**
 * The conversations stored in this browser.
 *
 * @module
 */
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Failure, SaveButton, SidePanel } from "./controls.tsx";
import type { Conversation } from "./conversation.ts";
import { exportFile, readExport } from "./conversation_store.ts";

export function ConversationList(
  { conversations, currentId, deleted, onOpen, onNew, onDelete, onRestore, onImport }: {
    conversations: readonly Conversation[];
    currentId: string;
    onOpen: (conversation: Conversation) => void;
    onNew: () => void;
    onDelete: (id: string) => void;
    /** One that can be had back. */
    deleted: Conversation | undefined;
    onRestore: (conversation: Conversation) => void;
    onImport: (conversations: Conversation[]) => Promise<void>;
  },
): JSX.Element {
  const [failure, setFailure] = useState<string>();
  const input = useRef<HTMLInputElement>(null);
  const importFile = async (file: File | undefined) => {
    if (file === undefined) return;
    try {
      await onImport(await readExport(file));
      setFailure(undefined);
    } catch (error) {
      setFailure((error as Error).message);
    }
  };
  return (
    <SidePanel title="Conversations" opensFrom="60rem">
      <button type="button" class="main" onClick={onNew}>New conversation</button>
      <ul>
        {conversations.map((conversation) => (
          <li key={conversation.id}>
            <button
              type="button"
              class="entry"
              dir="auto"
              aria-current={conversation.id === currentId}
              onClick={() => onOpen(conversation)}
            >
              {conversation.title}
            </button>
            <button
              type="button"
              class="quiet"
              aria-label={`Delete ${conversation.title}`}
              onClick={() => onDelete(conversation.id)}
            >
              ✕
            </button>
          </li>
        ))}
      </ul>
      {deleted && (
        <p class="soft" role="status">
          Deleted.{" "}
          <button type="button" class="quiet" onClick={() => onRestore(deleted)}>
            Undo
          </button>
        </p>
      )}
      <div class="row">
        <SaveButton name="hearth-conversations.json" make={() => exportFile(conversations)}>
          Export
        </SaveButton>
        <button type="button" onClick={() => input.current?.click()}>Import</button>
      </div>
      <input
        ref={input}
        type="file"
        accept="application/json"
        aria-label="File of exported conversations"
        hidden
        onChange={(event) => {
          importFile(event.currentTarget.files?.[0]);
          event.currentTarget.value = "";
        }}
      />
      <Failure message={failure} />
    </SidePanel>
  );
}
