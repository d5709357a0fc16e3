/**
 * The list of conversations stored in this browser, with search, renaming, deletion, restoration, export and import.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failure, Notice, QuietButton, SidePanel } from "../controls.tsx";
import { FileButton, SaveButton } from "../files.tsx";
import { searchTurns } from "./chat_database.ts";
import type { ChatState } from "./chat_state.ts";
import type { ChatStore } from "./chat_store.ts";
import { type Conversation, type Draft, makeTitle, newId } from "./conversation.ts";
import { readExport, writeExport } from "./conversation_formats.ts";

/** The search starts when nothing was typed for this long. */
const SEARCH_AFTER_MS = 150;

interface Props {
  readonly store: ChatStore;
  readonly state: ChatState;
  readonly onOpen: (id: string) => void;
}

export function ConversationList({ store, state, onOpen }: Props): JSX.Element {
  const [query, setQuery] = useState("");
  const [lastDeleted, setLastDeleted] = useState<Conversation>();
  const found = useSearch(query, state.conversations);
  const listed = listEntries(state).filter(({ id, title }) =>
    found === undefined || found.has(id) || title.toLowerCase().includes(query.toLowerCase())
  );
  const deleted = state.conversations.filter(({ deletedMs }) => deletedMs !== undefined);
  return (
    <SidePanel title="Conversations" opensFrom="60rem">
      <button type="button" class="main" onClick={() => onOpen(newId())}>New conversation</button>
      <input
        type="search"
        aria-label="Search conversations"
        placeholder="Search"
        value={query}
        onInput={(event) => setQuery(event.currentTarget.value)}
      />
      {listed.length === 0 && query !== "" && <p class="soft" role="status">Nothing found.</p>}
      <ul>
        {listed.map((entry) => (
          <Entry
            key={entry.id}
            conversation={entry}
            isOpen={entry.id === state.open.id}
            isAnswering={state.answering.has(entry.id)}
            onOpen={() => onOpen(entry.id)}
            onRename={(title) => store.change(entry, { title, isRenamed: true })}
            onDelete={() => {
              setLastDeleted(entry);
              store.deleteConversation(entry);
              if (entry.id === state.open.id) onOpen(newId());
            }}
          />
        ))}
      </ul>
      {lastDeleted && (
        <Notice
          text="Deleted."
          action="Undo"
          onClick={() => {
            store.restoreConversation(lastDeleted);
            setLastDeleted(undefined);
          }}
        />
      )}
      <ImportExport store={store} />
      {deleted.length > 0 && <Deleted conversations={deleted} store={store} />}
    </SidePanel>
  );
}

/** Lists the conversations that have turns, and those that only have a draft. */
function listEntries({ conversations, drafts }: ChatState): Conversation[] {
  const stored = new Map(conversations.map((each) => [each.id, each]));
  const begun = [...drafts.values()].filter((draft) => {
    return !isEmpty(draft) && (stored.get(draft.conversationId)?.headId ?? null) === null;
  });
  return [
    ...begun.map((draft) => ({
      id: draft.conversationId,
      title: `Draft: ${makeTitle([{ ...draft, id: "", role: "user" }])}`,
      updatedMs: Infinity,
      headId: null,
    })),
    ...conversations.filter(({ headId }) => headId !== null),
  ].filter(({ id }) => stored.get(id)?.deletedMs === undefined);
}

function isEmpty({ text, images, files }: Draft): boolean {
  return text.trim() === "" && images.length + files.length === 0;
}

/** Searches the turns for a text. @returns the ids of the conversations found; `undefined` if the text is empty. */
function useSearch(
  query: string,
  conversations: readonly Conversation[],
): ReadonlySet<string> | undefined {
  const [found, setFound] = useState<{ text: string; ids: ReadonlySet<string> }>();
  const wanted = query.trim();
  useEffect(() => {
    if (wanted === "") return setFound(undefined);
    let isOld = false;
    const timer = setTimeout(async () => {
      const ids = await searchTurns(wanted);
      if (!isOld) setFound({ text: wanted, ids });
    }, SEARCH_AFTER_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [wanted, conversations]);
  if (wanted === "") return undefined;
  return found?.text === wanted ? found.ids : new Set();
}

function Entry({ conversation, isOpen, isAnswering, onOpen, onRename, onDelete }: {
  conversation: Conversation;
  isOpen: boolean;
  isAnswering: boolean;
  onOpen: () => void;
  onRename: (title: string) => void;
  onDelete: () => void;
}): JSX.Element {
  const [isRenaming, setIsRenaming] = useState(false);
  const { title, headId } = conversation;
  if (isRenaming) {
    return (
      <li>
        <TitleField
          title={title}
          onDone={(next) => {
            setIsRenaming(false);
            if (next !== undefined) onRename(next);
          }}
        />
      </li>
    );
  }
  return (
    <li>
      <button type="button" class="entry" dir="auto" aria-current={isOpen} onClick={onOpen}>
        {title}
      </button>
      {isAnswering && <span class="dots" role="img" aria-label="Answer in progress" />}
      {headId !== null && (
        <QuietButton
          aria-label={`Rename ${title}`}
          onClick={() => setIsRenaming(true)}
        >
          ✎
        </QuietButton>
      )}
      <QuietButton aria-label={`Delete ${title}`} onClick={onDelete}>✕</QuietButton>
    </li>
  );
}

/** A field for the title. Pressing Enter or leaving the field sets the title; pressing Escape does not. */
function TitleField({ title, onDone }: {
  title: string;
  onDone: (title: string | undefined) => void;
}): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  const isDone = useRef(false);
  useLayoutEffect(() => {
    field.current!.focus();
    field.current!.select();
  }, []);
  const finish = (next: string | undefined) => {
    if (isDone.current) return;
    isDone.current = true;
    onDone(next?.trim() || undefined);
  };
  return (
    <input
      ref={field}
      class="entry"
      aria-label="Title of the conversation"
      dir="auto"
      maxLength={200}
      defaultValue={title}
      onBlur={(event) => finish(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== "Escape") return;
        event.preventDefault();
        finish(event.key === "Enter" ? event.currentTarget.value : undefined);
      }}
    />
  );
}

function Deleted({ conversations, store }: {
  conversations: readonly Conversation[];
  store: ChatStore;
}): JSX.Element {
  return (
    <details>
      <summary class="soft">Deleted in the last 30 days ({conversations.length})</summary>
      <ul>
        {conversations.map((conversation) => (
          <li key={conversation.id}>
            <span class="gone" dir="auto">{conversation.title}</span>
            <QuietButton
              aria-label={`Restore ${conversation.title}`}
              onClick={() => store.restoreConversation(conversation)}
            >
              Restore
            </QuietButton>
          </li>
        ))}
      </ul>
    </details>
  );
}

function ImportExport({ store }: { store: ChatStore }): JSX.Element {
  const [failure, setFailure] = useState<string>();
  const [news, setNews] = useState<string>();
  const importFile = async ([file]: readonly File[]) => {
    if (file === undefined) return;
    setFailure(undefined);
    setNews(undefined);
    try {
      const read = readExport(await file.text());
      await store.import(read);
      setNews(`${read.conversations.length} imported from ${file.name}.`);
    } catch (error) {
      setFailure(`${file.name} was not imported. ${(error as Error).message}`);
    }
  };
  return (
    <>
      <div class="row">
        <SaveButton
          name="hearth-conversations.json"
          make={async () => writeExport(await store.export())}
        >
          Export
        </SaveButton>
        <FileButton
          label="File of exported conversations"
          accept="application/json"
          onFiles={importFile}
        >
          Import
        </FileButton>
      </div>
      {news && <p class="soft" role="status">{news}</p>}
      <Failure message={failure} />
    </>
  );
}
