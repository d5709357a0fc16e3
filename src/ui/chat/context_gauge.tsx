/**
 * Shows how much of the model's context the conversation takes.
 *
 * @module
 */
import type { JSX } from "preact";
import type { Message } from "./turns.ts";

/** The gauge warns from this share on. */
const NEARLY_FULL = 0.85;

/** Shows nothing before the first answer, which tells the number of tokens. */
export function ContextGauge({ path, contextLength }: {
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
