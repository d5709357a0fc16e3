/**
 * Parts of a message: its text, its tokens, and the button that reads it aloud.
 *
 * @module
 */
import type { JSX } from "preact";
import { Failure } from "../controls.tsx";
import { post, readBytes } from "../server.ts";
import { SpeechPlayer } from "../sound.tsx";
import { useWork } from "../observed.ts";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { MarkdownView } from "./markdown_view.ts";
import type { TokenChoice } from "./turns.ts";

/** @param props.text gives the text to read aloud. */
export function ReadAloudButton({ model, text }: {
  model: string;
  text: () => string;
}): JSX.Element {
  const work = useWork();
  const read = () =>
    work.start(async (signal) => {
      const player = new SpeechPlayer();
      signal.addEventListener("abort", () => player.close());
      try {
        const body = { model, input: text(), response_format: "pcm" };
        const response = await post("v1/audio/speech", body, signal);
        for await (const bytes of readBytes(response)) player.add(bytes);
        await player.finished();
      } finally {
        await player.close();
      }
    });
  return (
    <>
      <button
        type="button"
        class="quiet act"
        aria-pressed={work.isBusy}
        onClick={work.isBusy ? work.stop : read}
      >
        {work.isBusy ? "Stop reading" : "Read aloud"}
      </button>
      <Failure message={work.failure} />
    </>
  );
}

export function Markdown({ text, isComplete }: { text: string; isComplete: boolean }): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const view = useRef<MarkdownView | undefined>(undefined);
  const pending = useRef<number | undefined>(undefined);
  const restUntilMs = useRef(0);
  useLayoutEffect(() => {
    const update = () => {
      view.current ??= new MarkdownView(root.current!);
      const startedMs = performance.now();
      view.current.update(text, isComplete);
      // Rendering takes at most a quarter of the page's time, even if a block is long: it pauses three times as long as
      // it took.
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

/**
 * The tokens of an answer. The less likely a token, the stronger its colour; the hovered or focused one shows its
 * alternatives.
 */
export function TokenList({ tokens }: { tokens: readonly TokenChoice[] }): JSX.Element {
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
              <td>{percent(logprob)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** How unlikely a token is, from 0 (certain) to 4. */
function computeDoubt(logprob: number): number {
  const probability = Math.exp(logprob);
  return [0.9, 0.6, 0.3, 0.1].filter((bound) => probability < bound).length;
}

function percent(logprob: number): string {
  return `${(Math.exp(logprob) * 100).toFixed(1)} %`;
}
