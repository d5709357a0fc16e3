/**
 * Log-probabilities of a prompt's tokens, in vLLM's format.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";

/** What vLLM and OpenAI write for minus infinity, which JSON lacks. */
const LOWEST = -9999;

/** How many of the most likely tokens to report for each token of the prompt. */
export const PromptLogprobsField = integerFrom(0, 20).nullish().describe(
  "Report the log-probability of each token of the prompt, and of this many of the most likely tokens",
);

/** Streamed chunks have no field for a prompt's log-probabilities. */
export const NO_PROMPT_LOGPROBS_IN_STREAMS = [
  ({ prompt_logprobs: top, stream }: PromptLogprobsRequest) => !stream || typeof top !== "number",
  { path: ["prompt_logprobs"], error: "no value in a stream, which cannot report them" },
] satisfies [unknown, unknown];

interface PromptLogprobsRequest {
  readonly prompt_logprobs?: number | null | undefined;
  readonly stream?: boolean | null | undefined;
}

/** Reported tokens by their ids, for each token of the prompt and including it; `null` for the first. */
export const PromptLogprobs = z.array(
  z.record(
    z.string(),
    z.object({
      logprob: z.number(),
      rank: integerFrom(1).nullable().describe(
        "1 for the most likely; null for a token that is not among the reported ones",
      ),
      decoded_token: z.string(),
    }),
  ).nullable(),
);

/** A token as the model reports it. */
interface ScoredToken {
  readonly id: number;
  readonly token: string;
  /** Absent for the first token of the prompt. */
  readonly logprob?: number | undefined;
}

/** @param numTop how many of the most likely tokens are reported. */
export function promptLogprobs(
  tokens: readonly (ScoredToken & { readonly top: readonly ScoredToken[] })[],
  numTop: number,
): z.output<typeof PromptLogprobs> {
  return tokens.map(({ id, token, logprob, top }) => {
    if (logprob === undefined) return null;
    const position = top.findIndex((rival) => rival.id === id);
    const own = { id, token, logprob, rank: position < 0 ? null : position + 1 };
    const rivals = top.slice(0, numTop).map((rival, index) => ({ ...rival, rank: index + 1 }));
    return Object.fromEntries([own, ...rivals].map(({ id, token, logprob = LOWEST, rank }) => [
      `${id}`,
      { logprob: Math.max(logprob, LOWEST), rank, decoded_token: token },
    ]));
  });
}
