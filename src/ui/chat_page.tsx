/**
 * Chat, with images for vision models.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { addressOf, hasApiKey, type PageProps, type ServerInfo } from "./server.ts";
import { streamAnswer } from "./answer_stream.ts";

import { ChatSettingsPanel } from "./chat_settings.tsx";
import { Composer } from "./composer.tsx";
import { Failure } from "./controls.tsx";
import {
  chatRequest,
  type ChatSettings,
  type Conversation,
  DEFAULT_SETTINGS,
  type Message,
  newConversation,
  newId,
  titleOf,
} from "./conversation.ts";
import { ConversationList } from "./conversation_list.tsx";
import { deleteConversation, loadConversations, saveConversation } from "./conversation_store.ts";
import { MessageList } from "./message_list.tsx";
import { RequestCode } from "./request_code.tsx";

export function ChatPage({ info }: PageProps): JSX.Element {
  const [conversations, setConversations] = useState<readonly Conversation[]>([]);
  const [current, setCurrent] = useState<Conversation>(newConversation);
  /** The last one that was deleted, until another is begun or opened. */
  const [deleted, setDeleted] = useState<Conversation>();
  const [answer, setAnswer] = useState<Message>();
  const [settings, setSettings] = useSettings();
  const [failure, setFailure] = useState<string>();
  const controller = useRef<AbortController | undefined>(undefined);

  useEffect(() => {
    loadConversations().then(setConversations).catch((error: Error) => setFailure(error.message));
    return () => controller.current?.abort();
  }, []);

  /** Stores it, and shows what changed if it is still the one that is open. */
  const keep = (conversation: Conversation) => {
    setCurrent((open) => open.id === conversation.id ? conversation : open);
    setConversations((all) => [conversation, ...all.filter(({ id }) => id !== conversation.id)]);
    saveConversation(conversation).catch((error: Error) => setFailure(error.message));
  };

  /** Continues from these messages, which end with a user's or a tool's. */
  const ask = async (messages: readonly Message[]) => {
    controller.current?.abort();
    const own = controller.current = new AbortController();
    const { signal } = own;
    setFailure(undefined);
    const asked = { ...current, messages, title: titleOf(messages), updatedMs: Date.now() };
    keep(asked);
    try {
      const body = chatRequest(info.id, messages, settings);
      setAnswer({ id: "pending", role: "assistant", text: "" });
      const whole = await streamAnswer(body, { signal, onChange: setAnswer });
      // The question was edited, asked again or deleted meanwhile: nobody waits for this answer.
      if (controller.current !== own) return;
      const isEmpty = whole.text === "" && !whole.toolCalls && !whole.reasoning;
      if (whole.error && isEmpty) setFailure(whole.error);
      else if (!isEmpty) keep({ ...asked, messages: [...messages, whole], updatedMs: Date.now() });
    } catch (error) {
      if (controller.current !== own) return;
      setFailure((error as Error).message);
    }
    setAnswer(undefined);
  };

  const open = (conversation: Conversation) => {
    setDeleted(undefined);
    if (conversation.id === current.id) return;
    controller.current?.abort();
    setAnswer(undefined);
    setFailure(undefined);
    setCurrent(conversation);
  };

  const { messages } = current;
  /** Removes the last question, whose image the server may refuse for ever. */
  const takeBack = () => {
    setFailure(undefined);
    keep({ ...current, messages: messages.slice(0, -1), updatedMs: Date.now() });
  };
  const shown = useMemo(() => answer ? [...messages, answer] : messages, [messages, answer]);
  const send = (text: string, images: readonly string[]) =>
    ask([...messages, { id: newId(), role: "user", text, images }]);

  return (
    <div class="chat">
      <ConversationList
        conversations={conversations}
        currentId={current.id}
        onOpen={open}
        onNew={() => open(newConversation())}
        onDelete={(id) => {
          setDeleted(conversations.find((each) => each.id === id));
          setConversations((all) => all.filter((each) => each.id !== id));
          deleteConversation(id);
          if (id !== current.id) return;
          controller.current?.abort();
          controller.current = undefined;
          setAnswer(undefined);
          setFailure(undefined);
          setCurrent(newConversation());
        }}
        deleted={deleted}
        onRestore={async (conversation) => {
          setDeleted(undefined);
          await saveConversation(conversation);
          setConversations(await loadConversations());
        }}
        onImport={async (imported) => {
          for (const conversation of imported) await saveConversation(conversation);
          setConversations(await loadConversations());
        }}
      />
      <main>
        <MessageList
          messages={shown}
          isStreaming={answer !== undefined}
          greeting={
            <Greeting
              kind={info.kind}
              onAsk={answer === undefined ? (text) => send(text, []) : undefined}
            />
          }
          onRegenerate={(index) => ask(messages.slice(0, index))}
          onEdit={(index, text) =>
            ask([...messages.slice(0, index), { ...messages[index]!, text }])}
          onToolResults={(results) => ask([...messages, ...results])}
        />
        <Failure message={failure} />
        {answer === undefined && isUnanswered(messages) && (
          <p>
            <button type="button" class="quiet act" onClick={() => ask(messages)}>Try again</button>
            <button type="button" class="quiet act" onClick={takeBack}>Take it back</button>
          </p>
        )}
        <Composer
          takesImages={info.kind === "vision"}
          isBusy={answer !== undefined}
          onSend={send}
          onStop={() => controller.current?.abort()}
        />
        <LastRequest model={info.id} messages={messages} settings={settings} />
      </main>
      <ChatSettingsPanel settings={settings} onChange={setSettings} />
    </div>
  );
}

/** Whether the answer failed or was stopped before its first word. */
function isUnanswered(messages: readonly Message[]): boolean {
  return messages.length > 0 && messages.at(-1)!.role !== "assistant";
}

const QUESTIONS = [
  "What is the capital of France?",
  "Tell me a short story",
  "What is 17 plus 25?",
] as const;

/** What stands where there is no message yet. */
function Greeting({ kind, onAsk }: {
  kind: ServerInfo["kind"];
  onAsk: ((question: string) => void) | undefined;
}): JSX.Element {
  const address = addressOf("v1");
  return (
    <>
      <h1>{kind === "vision" ? "Ask about an image" : "Ask something"}</h1>
      {kind === "vision" ? <p>Drop, paste or add an image, then ask.</p> : (
        <div class="row">
          {QUESTIONS.map((question) => (
            <button
              key={question}
              type="button"
              disabled={onAsk === undefined}
              onClick={() => onAsk?.(question)}
            >
              {question}
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

/** The request that the last answer came from, or would. */
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
        request={{ path: "v1/chat/completions", json: chatRequest(model, asked, settings) }}
      />
    );
  } catch {
    return null;
  }
}

const SETTINGS_KEY = "hearth.chat";

/** The last settings in this browser. */
function useSettings(): [ChatSettings, (settings: ChatSettings) => void] {
  const [settings, setSettings] = useState<ChatSettings>(() => {
    try {
      return { ...DEFAULT_SETTINGS, ...JSON.parse(localStorage.getItem(SETTINGS_KEY) ?? "{}") };
    } catch {
      return DEFAULT_SETTINGS;
    }
  });
  return [settings, (next) => {
    setSettings(next);
    localStorage.setItem(SETTINGS_KEY, JSON.stringify(next));
  }];
}
