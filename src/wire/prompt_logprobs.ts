/**
 * Log-probabilities of a prompt's tokens, as vLLM has them.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";

/** What vLLM and OpenAI write for minus infinity, which JSON lacks. */
const LOWEST = -9999;

/** How many of the most likely tokens to report with each of the prompt's. */
export const PromptLogprobsField = integerFrom(0, 20).nullish().describe(
  "Report the log-probability of each token of the prompt, and of as many of the most likely",
);

/** Streamed chunks have no field for them. */
export const NO_PROMPT_LOGPROBS_IN_STREAMS = [
  ({ prompt_logprobs: top, stream }: PromptLogprobsRequest) => !stream || typeof top !== "number",
  { path: ["prompt_logprobs"], error: "nothing in a stream, which does not report them" },
] satisfies [unknown, unknown];

interface PromptLogprobsRequest {
  readonly prompt_logprobs?: number | null | undefined;
  readonly stream?: boolean | null | undefined;
}

/** Tokens by their ids for each token of the prompt, its own among them; `null` for the first. */
export const PromptLogprobs = z.array(
  z.record(
    z.string(),
    z.object({
      logprob: z.number(),
      rank: integerFrom(1).nullable().describe("1 is the most likely; null beyond those reported"),
      decoded_token: z.string(),
    }),
  ).nullable(),
);

/** A token as the model reports it. */
interface ScoredToken {
  readonly id: number;
  readonly token: string;
  /** Absent for the prompt's first. */
  readonly logprob?: number | undefined;
}

/** @param numTop how many of the most likely are shown. */
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
