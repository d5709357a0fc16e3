/**
 * An answer's tokens: the less likely, the stronger their colour; the hovered or focused one shows its alternatives.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { TokenChoice } from "./turns.ts";

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
          {choice ? `In place of ${JSON.stringify(choice.token)}` : "Point at a token"}
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

/** 0 for certain tokens, 4 for very unlikely ones. */
function computeDoubt(logprob: number): number {
  const probability = Math.exp(logprob);
  return [0.9, 0.6, 0.3, 0.1].filter((bound) => probability < bound).length;
}

function percent(logprob: number): string {
  return `${(Math.exp(logprob) * 100).toFixed(1)} %`;
}
