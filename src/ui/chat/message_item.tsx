/**
 * One turn, with the actions on it.
 *
 * @module
 */
import { memo } from "preact/compat";
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { CopyButton, formatMs, QuietButton } from "../controls.tsx";
import type { ChatStore } from "./chat_store.ts";
import { Markdown } from "./markdown_view.tsx";
import { ReadAloudButton } from "./voice.tsx";
import { ToolCalls } from "./tool_calls.tsx";
import type { AnswerFigures, TokenChoice, Turn } from "./conversation.ts";

interface Props {
  readonly turn: Turn;
  /** Ids of this turn and its alternatives, separated by spaces. */
  readonly siblings: string;
  readonly isLast: boolean;
  readonly isStreaming: boolean;
  /** Whether the turn is being written in another tab. */
  readonly isElsewhere: boolean;
  readonly store: ChatStore;
}

export const MessageItem = memo(function MessageItem(props: Props): JSX.Element {
  if (props.turn.role === "user") return <Question {...props} />;
  if (props.turn.role === "tool") return <ToolResult turn={props.turn} />;
  return <Answer {...props} />;
});

function Question({ turn, siblings, store }: Props): JSX.Element {
  const [isEditing, setIsEditing] = useState(false);
  const { text, images = [], files = [], parentId } = turn;
  return (
    <li class="message user">
      {images.map((url, at) => <img key={at} src={url} alt={`Image ${at + 1}`} />)}
      {files.map(({ name }, at) => <span key={at} class="chip" dir="auto">{name}</span>)}
      {isEditing
        ? (
          <Editor
            text={text}
            action="Send again"
            onCancel={() => setIsEditing(false)}
            onDone={(next) => {
              setIsEditing(false);
              store.ask({ text: next, images, files }, parentId);
            }}
          />
        )
        : text !== "" && <p class="plain" dir="auto">{text}</p>}
      {!isEditing && (
        <span class="acts">
          <Branches turn={turn} siblings={siblings} store={store} />
          <CopyButton class="quiet" text={() => text} />
          <QuietButton onClick={() => setIsEditing(true)}>Edit</QuietButton>
          <QuietButton onClick={() => store.deleteTurn(turn)}>Delete</QuietButton>
        </span>
      )}
    </li>
  );
}

function ToolResult({ turn }: { turn: Turn }): JSX.Element {
  return (
    <li class="message tool">
      <p class="label">Result</p>
      <pre tabIndex={0}>{turn.text}</pre>
    </li>
  );
}

function Answer({ turn, siblings, isLast, isStreaming, isElsewhere, store }: Props): JSX.Element {
  const [isEditing, setIsEditing] = useState(false);
  const [showsTokens, setShowsTokens] = useState(false);
  const { text, reasoning, toolCalls, figures, tokens, error } = turn;
  const isThinking = isStreaming && text === "";
  const unfinished = isElsewhere
    ? "Being written in another tab."
    : "The page was closed before the answer ended.";
  const note = turn.isUnfinished ? unfinished : turn.note;
  const item = useRef<HTMLLIElement>(null);
  const { speaker } = store.voice;
  return (
    <li class="message assistant" aria-busy={isStreaming} ref={item}>
      {reasoning && (
        <details class="thought" open={isThinking}>
          <summary>{isThinking ? "Thinking …" : "Thought"}</summary>
          <p class="plain" dir="auto">{reasoning}</p>
        </details>
      )}
      {isEditing
        ? (
          <Editor
            text={text}
            action="Keep"
            onCancel={() => setIsEditing(false)}
            onDone={(next) => {
              setIsEditing(false);
              store.editAnswer(turn, next);
            }}
          />
        )
        : showsTokens && tokens
        ? <TokenList tokens={tokens} />
        : <Markdown text={text} isComplete={!isStreaming} />}
      {isThinking && !reasoning && <p class="soft dots">Waiting</p>}
      {toolCalls && (
        <ToolCalls
          turn={turn}
          tools={store.tools}
          onResults={isLast && !isStreaming ? (results) => store.addResults(results) : undefined}
        />
      )}
      {error && <p class="failure" role="alert">{error}</p>}
      {!isStreaming && (
        <footer>
          {note && <span>{note}</span>}
          {figures && <Figures figures={figures} />}
          <span class="acts">
            <Branches turn={turn} siblings={siblings} store={store} />
            <CopyButton class="quiet" text={() => text} />
            {speaker && text !== "" && (
              <ReadAloudButton
                model={speaker}
                text={() => readSpokenText(item.current!, text)}
              />
            )}
            <QuietButton onClick={() => store.answer(turn.parentId!)}>Regenerate</QuietButton>
            {isLast && text !== "" && !toolCalls && (
              <QuietButton onClick={() => store.continueAnswer(turn)}>Continue</QuietButton>
            )}
            {!toolCalls && <QuietButton onClick={() => setIsEditing(true)}>Edit</QuietButton>}
            <QuietButton onClick={() => store.deleteTurn(turn)}>Delete</QuietButton>
            {tokens && (
              <QuietButton
                aria-pressed={showsTokens}
                onClick={() => setShowsTokens(!showsTokens)}
              >
                Probabilities
              </QuietButton>
            )}
          </span>
        </footer>
      )}
    </li>
  );
}

/** Reads the text of an answer without Markdown's markup and without code, to be spoken. */
function readSpokenText(item: HTMLElement, markdown: string): string {
  const shown = item.querySelector(".markdown")?.cloneNode(true) as HTMLElement | undefined;
  for (const part of shown?.querySelectorAll(".code, .katex-html") ?? []) part.remove();
  return shown?.textContent?.trim() || markdown;
}

/** Tells which of several alternative turns is shown, with buttons that show another one. */
function Branches({ turn, siblings, store }: Pick<Props, "turn" | "siblings" | "store">) {
  const ids = siblings.split(" ");
  const at = ids.indexOf(turn.id);
  if (ids.length < 2 || at < 0) return null;
  return (
    <span class="branches" role="group" aria-label="Versions">
      <QuietButton
        aria-label="Previous version"
        disabled={at === 0}
        onClick={() => store.show(ids[at - 1]!)}
      >
        ‹
      </QuietButton>
      <span aria-label={`Version ${at + 1} of ${ids.length}`} role="img">
        {at + 1}/{ids.length}
      </span>
      <QuietButton
        aria-label="Next version"
        disabled={at === ids.length - 1}
        onClick={() => store.show(ids[at + 1]!)}
      >
        ›
      </QuietButton>
    </span>
  );
}

/** Shortest duration of an answer for which a rate is shown. */
const LEAST_SECONDS = 0.02;

function Figures({ figures }: { figures: AnswerFigures }): JSX.Element {
  const { completionTokens, promptTokens, cachedTokens, firstTokenMs, totalMs } = figures;
  const seconds = (totalMs - firstTokenMs) / 1000;
  // The rate of an answer that arrives at once has no meaning.
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

function Editor({ text, action, onDone, onCancel }: {
  text: string;
  action: string;
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
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.preventDefault();
          onCancel();
        }}
      />
      <div class="row">
        <button type="button" onClick={onCancel}>Cancel</button>
        <button type="button" class="main" onClick={() => onDone(edited)}>{action}</button>
      </div>
    </>
  );
}

/**
 * The tokens of an answer. The less likely a token is, the stronger is its colour. The alternatives to the hovered or
 * focused token are shown.
 */
function TokenList({ tokens }: { tokens: readonly TokenChoice[] }): JSX.Element {
  const [chosen, setChosen] = useState<number>();
  const choose = (event: Event) => {
    const index = (event.target as HTMLElement).dataset["index"];
    if (index !== undefined) setChosen(Number(index));
  };
  const choice = chosen === undefined ? undefined : tokens[chosen];
  return (
    <div class="tokens">
      <p onMouseOver={choose} onFocusIn={choose}>
        {tokens.map(({ token, logprob }, index) => (
          <span
            key={index}
            data-index={index}
            tabIndex={0}
            data-doubt={computeDoubt(logprob)}
            aria-current={index === chosen}
          >
            {token}
          </span>
        ))}
      </p>
      <table aria-live="polite">
        <caption>
          {choice
            ? `Alternatives to ${JSON.stringify(choice.token)}`
            : "Point at a token to see its alternatives"}
        </caption>
        <tbody>
          {choice?.top_logprobs.map(({ token, logprob }) => (
            <tr key={token}>
              <td>
                <code>{JSON.stringify(token)}</code>
              </td>
              <td>{formatPercent(logprob)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Computes how unlikely a token is, from 0 (likely) to 4. */
function computeDoubt(logprob: number): number {
  const probability = Math.exp(logprob);
  return [0.9, 0.6, 0.3, 0.1].filter((bound) => probability < bound).length;
}

function formatPercent(logprob: number): string {
  return `${(Math.exp(logprob) * 100).toFixed(1)} %`;
}
