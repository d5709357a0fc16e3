/**
 * The messages of a conversation. Finished ones are not rendered again while another streams.
 *
 * @module
 */
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { memo } from "preact/compat";
import { CopyButton, formatMs } from "./controls.tsx";
import { type AnswerFigures, type Message, newId, type ToolCall } from "./conversation.ts";
import { MarkdownView } from "./markdown_view.ts";
import { TokenList } from "./token_list.tsx";

/** Actions on messages. */
interface MessageActions {
  readonly onRegenerate: (index: number) => void;
  readonly onEdit: (index: number, text: string) => void;
  readonly onToolResults: (results: readonly Message[]) => void;
}

export function MessageList({ messages, isStreaming, greeting, ...actions }: MessageActions & {
  messages: readonly Message[];
  isStreaming: boolean;
  greeting: JSX.Element;
}): JSX.Element {
  const list = useRef<HTMLOListElement>(null);
  const isAtEnd = useRef(true);
  // Handlers change with every message; memoised components call the latest.
  const latest = useRef(actions);
  latest.current = actions;
  const stable = useRef<MessageActions>({
    onRegenerate: (index) => latest.current.onRegenerate(index),
    onEdit: (index, text) => latest.current.onEdit(index, text),
    onToolResults: (results) => latest.current.onToolResults(results),
  });
  useLayoutEffect(() => {
    if (isAtEnd.current) list.current?.scrollTo({ top: list.current.scrollHeight });
  }, [messages]);
  return (
    <ol
      class="messages"
      ref={list}
      tabIndex={0}
      aria-label="Conversation"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < 80;
      }}
    >
      {messages.length === 0 && <li class="greeting">{greeting}</li>}
      {messages.map((message, index) => (
        <MessageItem
          key={index}
          message={message}
          index={index}
          isLast={index === messages.length - 1}
          isStreaming={isStreaming && index === messages.length - 1}
          actions={stable.current}
        />
      ))}
    </ol>
  );
}

const MessageItem = memo(function MessageItem({ message, index, isLast, isStreaming, actions }: {
  message: Message;
  index: number;
  isLast: boolean;
  isStreaming: boolean;
  actions: MessageActions;
}): JSX.Element {
  const [isEditing, setIsEditing] = useState(false);
  const [showsTokens, setShowsTokens] = useState(false);
  const { role, text, images = [], reasoning, toolCalls, figures, tokens, note, error } = message;
  if (role === "user") {
    return (
      <li class="message user">
        {images.map((url, at) => <img key={at} src={url} alt={`Image ${at + 1}`} />)}
        {isEditing
          ? (
            <Editor
              text={text}
              onCancel={() => setIsEditing(false)}
              onDone={(next) => {
                setIsEditing(false);
                actions.onEdit(index, next);
              }}
            />
          )
          : <p class="plain" dir="auto">{text}</p>}
        {!isEditing && (
          <button type="button" class="quiet act" onClick={() => setIsEditing(true)}>Edit</button>
        )}
      </li>
    );
  }
  if (role === "tool") {
    return (
      <li class="message tool">
        <p class="label">Result</p>
        <pre tabIndex={0}>{text}</pre>
      </li>
    );
  }
  return (
    <li class="message assistant" aria-busy={isStreaming}>
      {reasoning && (
        <details class="thought" open={isStreaming && text === ""}>
          <summary>{isStreaming && text === "" ? "Thinking …" : "Thought"}</summary>
          <p class="plain" dir="auto">{reasoning}</p>
        </details>
      )}
      {showsTokens && tokens
        ? <TokenList tokens={tokens} />
        : <Markdown text={text} isComplete={!isStreaming} />}
      {isStreaming && text === "" && !reasoning && <p class="soft dots">Waiting</p>}
      {toolCalls && (
        <ToolCalls
          calls={toolCalls}
          onResults={isLast && !isStreaming ? actions.onToolResults : undefined}
        />
      )}
      {error && <p class="failure" role="alert">{error}</p>}
      {!isStreaming && (
        <footer>
          {note && <span>{note}</span>}
          {figures && <Figures figures={figures} />}
          <span class="acts">
            <CopyButton class="quiet act" text={() => text} />
            <button type="button" class="quiet act" onClick={() => actions.onRegenerate(index)}>
              Regenerate
            </button>
            {tokens && (
              <button
                type="button"
                class="quiet act"
                aria-pressed={showsTokens}
                onClick={() => setShowsTokens(!showsTokens)}
              >
                Probabilities
              </button>
            )}
          </span>
        </footer>
      )}
    </li>
  );
});

function Markdown({ text, isComplete }: { text: string; isComplete: boolean }): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const view = useRef<MarkdownView | undefined>(undefined);
  const pending = useRef<number | undefined>(undefined);
  const restUntilMs = useRef(0);
  useLayoutEffect(() => {
    const update = () => {
      view.current ??= new MarkdownView(root.current!);
      const startedMs = performance.now();
      view.current.update(text, isComplete);
      // Rendering a long block again may take at most a quarter of the time.
      const endedMs = performance.now();
      restUntilMs.current = endedMs + 3 * (endedMs - startedMs);
    };
    const restMs = isComplete ? 0 : restUntilMs.current - performance.now();
    if (restMs <= 0) update();
    else pending.current = setTimeout(update, restMs);
    return () => clearTimeout(pending.current);
  }, [text, isComplete]);
  return <div class="markdown" ref={root} />;
}

/** Shorter answers show no rate. */
const LEAST_SECONDS = 0.02;

function Figures({ figures }: { figures: AnswerFigures }): JSX.Element {
  const { completionTokens, promptTokens, cachedTokens, firstTokenMs, totalMs } = figures;
  const seconds = (totalMs - firstTokenMs) / 1000;
  // An answer in one piece has no meaningful rate.
  const rate = completionTokens > 1 && seconds > LEAST_SECONDS
    ? ` · ${((completionTokens - 1) / seconds).toFixed(1)} tokens/s`
    : "";
  const cached = cachedTokens > 0 ? `, ${cachedTokens} cached` : "";
  return (
    <span class="figures">
      {`${completionTokens} tokens${rate} · first after ${formatMs(firstTokenMs)} · ` +
        `prompt ${promptTokens}${cached}`}
    </span>
  );
}

function Editor({ text, onDone, onCancel }: {
  text: string;
  onDone: (text: string) => void;
  onCancel: () => void;
}): JSX.Element {
  const [edited, setEdited] = useState(text);
  return (
    <>
      <textarea
        aria-label="Edit the message"
        dir="auto"
        rows={Math.min(12, edited.split("\n").length + 1)}
        value={edited}
        onInput={(event) => setEdited(event.currentTarget.value)}
      />
      <div class="row">
        <button type="button" onClick={onCancel}>Cancel</button>
        <button type="button" class="main" onClick={() => onDone(edited)}>Send again</button>
      </div>
    </>
  );
}

/** The calls, with input fields for their results. */
function ToolCalls({ calls, onResults }: {
  calls: readonly ToolCall[];
  onResults: ((results: readonly Message[]) => void) | undefined;
}): JSX.Element {
  const [results, setResults] = useState<Readonly<Record<string, string>>>({});
  const send = () =>
    onResults!(calls.map(({ id }) => ({
      id: newId(),
      role: "tool" as const,
      text: results[id] ?? "",
      toolCallId: id,
    })));
  return (
    <div class="calls">
      {calls.map(({ id, name, arguments: json }) => (
        <section key={id}>
          <p class="label">Calls {name}</p>
          <pre tabIndex={0}>{indent(json)}</pre>
          {onResults && (
            <label>
              Result of {name}
              <input
                value={results[id] ?? ""}
                onInput={(event) => setResults({ ...results, [id]: event.currentTarget.value })}
              />
            </label>
          )}
        </section>
      ))}
      {onResults && <button type="button" onClick={send}>Go on with these results</button>}
    </div>
  );
}

function indent(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
