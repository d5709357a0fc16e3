/**
 * The chat page: conversations, messages, settings, and a gauge that shows how much of the context is used.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Failure, Notice, QuietButton } from "../controls.tsx";
import {
  type ChatState,
  followAddress,
  readConversationId,
  showConversationId,
  useObserved,
} from "./chat_state.ts";
import { RequestCode } from "../request_code.tsx";
import { hasApiKey, type PageProps, resolveAddress, type ServerInfo } from "../server.ts";
import { makeChatRequest } from "./conversation_formats.ts";
import { ChatSettingsPanel, loadDefaultSettings } from "./chat_settings.tsx";
import { ChatStore } from "./chat_store.ts";
import { Composer } from "./composer.tsx";
import {
  type ChatSettings,
  findPathThrough,
  listChildren,
  type Message,
  newId,
  type Turn,
} from "./conversation.ts";
import { ConversationList } from "./conversation_list.tsx";
import { DictateButton, useVoice } from "./voice.tsx";
import { MessageItem } from "./message_item.tsx";

/** One store for the whole page, so that an answer goes on when another conversation is opened. */
const store = new ChatStore();
let isLoading = false;

export function ChatPage({ info, models }: PageProps): JSX.Element {
  const state = useObserved(store.observed);
  const { open, turns, conversations } = state;
  store.model = info.id;
  store.voice = useVoice(models);
  useEffect(() => {
    const leave = followAddress((id) => store.open(id ?? newId()));
    if (!isLoading) {
      isLoading = true;
      store.tools.servers.start();
      store.load(readConversationId() ?? newId());
    }
    return leave;
  }, []);
  useEffect(() => {
    // The page's address is at first without a conversation. It is replaced, so that going back does not lead to it.
    showConversationId(open.id, { replaces: readConversationId() === undefined });
    const title = open.headId === null ? "" : `${open.title} · `;
    document.title = `${title}${info.id} · Hearth`;
  }, [open.id, open.title, open.headId, info.id]);
  const isAnswering = state.answering.has(open.id);
  useStopKey(isAnswering);

  const path = useMemo(() => findPathThrough(turns, open.headId), [turns, open.headId]);
  const settings = open.settings ?? loadDefaultSettings();
  const openConversation = (id: string) => {
    showConversationId(id);
    store.open(id);
  };
  return (
    <div class="chat">
      <ConversationList store={store} state={state} onOpen={openConversation} />
      <main>
        {state.isLoaded && (
          <>
            {open.deletedMs !== undefined && (
              <Notice
                text="This conversation was deleted."
                action="Restore it"
                onClick={() => store.restoreConversation(open)}
              />
            )}
            <MessageList
              key={open.id}
              path={path}
              state={state}
              liveId={store.liveAnswer?.id}
              store={store}
              greeting={<Greeting kind={info.kind} isBusy={isAnswering} />}
            />
            {state.deletedTurn && (
              <Notice
                text="Deleted."
                action="Undo"
                onClick={() => store.restoreTurn(state.deletedTurn!)}
              />
            )}
            <Failure message={state.failures.get(open.id)} />
            {!isAnswering && isUnanswered(path) && <Unanswered turn={path.at(-1)!} />}
            <Composer
              key={`composer ${open.id}`}
              takesImages={info.kind === "vision"}
              takesAudio={info.takes_audio}
              isBusy={isAnswering}
              draft={state.drafts.get(open.id)}
              onDraft={(draft) => store.saveDraft({ ...draft, conversationId: open.id })}
              onSend={(message) => store.ask(message)}
              onStop={() => store.stop()}
              tools={(addText) => {
                const { listener } = store.voice;
                return listener && <DictateButton model={listener} onText={addText} />;
              }}
            />
            <div class="row foot">
              <LastRequest model={info.id} messages={path} settings={settings} />
              <ContextGauge path={path} contextLength={info.context_length} />
            </div>
          </>
        )}
      </main>
      <ChatSettingsPanel
        model={info.id}
        settings={settings}
        servers={store.tools.servers}
        onChange={(next) =>
          store.change(conversations.find(({ id }) => id === open.id) ?? open, { settings: next })}
      />
    </div>
  );
}

/** Makes Escape stop the answer, unless another element handles the key. */
function useStopKey(isAnswering: boolean): void {
  const latest = useRef(isAnswering);
  latest.current = isAnswering;
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || event.defaultPrevented || !latest.current) return;
      event.preventDefault();
      store.stop();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

/** Whether the last message has no answer, because the answer failed or was stopped before its first word. */
function isUnanswered(messages: readonly Message[]): boolean {
  return messages.length > 0 && messages.at(-1)!.role !== "assistant";
}

/** Offers to ask an unanswered question again, or to delete it: the server may refuse an image every time. */
function Unanswered({ turn }: { turn: Turn }): JSX.Element {
  return (
    <p>
      <QuietButton onClick={() => store.answer(turn.id)}>Try again</QuietButton>
      <QuietButton onClick={() => store.deleteTurn(turn)}>Take it back</QuietButton>
    </p>
  );
}

const QUESTIONS = [
  "What is the capital of France?",
  "Tell me a short story",
  "What is 17 plus 25?",
] as const;

/** Shown in place of messages while there are none. */
function Greeting({ kind, isBusy }: { kind: ServerInfo["kind"]; isBusy: boolean }): JSX.Element {
  const address = resolveAddress("v1");
  return (
    <>
      <h1>{kind === "vision" ? "Ask about an image" : "Ask something"}</h1>
      {kind === "vision" ? <p>Drop, paste or add an image, then ask.</p> : (
        <div class="row">
          {QUESTIONS.map((text) => (
            <button
              key={text}
              type="button"
              disabled={isBusy}
              onClick={() => store.ask({ text })}
            >
              {text}
            </button>
          ))}
        </div>
      )}
      <p>
        OpenAI clients reach this model at <code>{address}</code>
        {!hasApiKey() && (
          <>
            {" · "}
            <a href="docs" target="_blank" rel="noopener">API</a>
          </>
        )}
      </p>
    </>
  );
}

/** The request that produced the last answer, or that would produce the next one. */
function LastRequest({ model, messages, settings }: {
  model: string;
  messages: readonly Message[];
  settings: ChatSettings;
}): JSX.Element | null {
  const last = messages.findLastIndex(({ role }) => role !== "assistant");
  const asked = last < 0
    ? [{ id: "", role: "user", text: "Hello" } as const]
    : messages.slice(0, last + 1);
  try {
    return (
      <RequestCode
        request={{
          path: "v1/chat/completions",
          json: makeChatRequest(model, {
            messages: asked,
            settings,
            tools: store.tools.servers.definitions(),
          }),
        }}
      />
    );
  } catch {
    return null;
  }
}

/** The gauge warns once this share of the context is used. */
const NEARLY_FULL = 0.85;

/** Shows how much of the context is used, once an answer has told the number of tokens. */
function ContextGauge({ path, contextLength }: {
  path: readonly Message[];
  contextLength: number | null;
}): JSX.Element | null {
  const figures = path.findLast((message) => message.figures)?.figures;
  if (figures === undefined || contextLength === null) return null;
  const used = figures.promptTokens + figures.completionTokens;
  const isNearlyFull = used > NEARLY_FULL * contextLength;
  const text = `${used.toLocaleString("en")} of ${contextLength.toLocaleString("en")} tokens`;
  return (
    <p class="gauge" data-full={isNearlyFull}>
      <meter
        aria-label="Context used"
        aria-valuetext={text}
        min={0}
        max={contextLength}
        high={NEARLY_FULL * contextLength}
        value={Math.min(used, contextLength)}
      />
      <span>{text}{isNearlyFull && ": begin a new conversation soon"}</span>
    </p>
  );
}

/** If the list is scrolled to within this distance of its end, it scrolls along with new text. */
const NEAR_END_PIXELS = 80;

function MessageList({ path, state: { turns, writtenElsewhere }, liveId, store, greeting }: {
  path: readonly Turn[];
  state: ChatState;
  /** Id of the answer that is being written. */
  liveId: string | undefined;
  store: ChatStore;
  greeting: JSX.Element;
}): JSX.Element {
  const list = useRef<HTMLOListElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (isAtEnd.current) list.current?.scrollTo({ top: list.current.scrollHeight });
  }, [path]);
  return (
    <ol
      class="messages"
      ref={list}
      tabIndex={0}
      aria-label="Conversation"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_END_PIXELS;
      }}
    >
      {path.length === 0 && <li class="greeting">{greeting}</li>}
      {path.map((turn, index) => {
        const siblings = listChildren(turns, turn.parentId).map(({ id }) => id);
        return (
          <MessageItem
            key={turn.id}
            turn={turn}
            siblings={siblings.join(" ")}
            isLast={index === path.length - 1}
            isStreaming={turn.id === liveId}
            isElsewhere={writtenElsewhere.has(turn.parentId ?? "")}
            store={store}
          />
        );
      })}
    </ol>
  );
}
