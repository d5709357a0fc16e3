/**
 * Fields of chat requests that models of some kinds serve and others do not.
 *
 * @module
 */
import type { ChatRequest } from "../../../wire/chat_request.ts";
import { changesNothing } from "../../../wire/unserved_fields.ts";
import { HearthError } from "../../../base/errors.ts";
import type { ModelInfo } from "../../../worker/protocol.ts";
import { findFormat } from "./chat_grammar.ts";
import { toolOptions } from "./tool_options.ts";

/** Why a model does not serve a field, by field. */
type Reasons = Readonly<Partial<Record<keyof ChatRequest, string>>>;

/** Fields that models do not serve which answer about one image or recording, without a conversation. */
const NO_CHAT: Reasons = {
  prompt_logprobs: "scores no prompts",
  continue_final_message: "continues no messages",
  skip_special_tokens: "writes text without special tokens",
};

/** Fields that models do not serve whose answer is read off their input. */
const NO_GENERATION: Reasons = {
  n: "gives one answer",
  include_stop_str_in_output: "ends before a stop string",
  stop_token_ids: "ends where its input ends, or at a string",
};

/** Passed over by models whose answer is read off their input. */
const NO_WEIGHTS: Reasons = {
  min_tokens: "ends where its input ends",
  ignore_eos: "ends where its input ends",
  logit_bias: "weighs no tokens",
  dry_multiplier: "weighs no tokens",
  presence_penalty: "weighs no tokens",
  frequency_penalty: "weighs no tokens",
  repetition_penalty: "weighs no tokens",
};

/** Fields that speech recognition does not serve. */
const NO_TRANSCRIPT: Reasons = {
  ...NO_GENERATION,
  stop_token_ids: "ends where the recording ends",
  stop: "ends where the recording ends",
  logprobs: "tells no log-probabilities of its tokens",
};

/** Passed over by speech recognition above a temperature of 0; below it they change nothing. */
const NO_SAMPLING: Reasons = {
  top_p: "samples with a temperature alone",
  top_k: "samples with a temperature alone",
  min_p: "samples with a temperature alone",
  top_n_sigma: "samples with a temperature alone",
  seed: "samples with seeds of its own; a temperature of 0 gives the same answer each time",
};

function refusedBy({ kind, readsLines }: ModelInfo): Reasons {
  if (kind === "asr") return { ...NO_CHAT, ...NO_TRANSCRIPT };
  return { ...NO_CHAT, ...(readsLines && NO_GENERATION) };
}

function passedOverBy({ kind, readsLines }: ModelInfo, { temperature }: ChatRequest): Reasons {
  if (kind === "asr") return { ...NO_WEIGHTS, ...((temperature ?? 0) > 0 && NO_SAMPLING) };
  return readsLines ? NO_WEIGHTS : {};
}

/**
 * Checks the fields that a text model serves and the loaded model does not: those that would change the meaning of the
 * answer are refused, those that tune it are passed over.
 *
 * @returns a warning for each field that is passed over.
 * @throws {HearthError} `unsupported_by_model` naming the first such field; `invalid_value` for tools or a format that
 * no model would take.
 */
export function findUnservedBy(info: ModelInfo, request: ChatRequest): string[] {
  const { id, kind } = info;
  if (kind === "text" || kind === "vision") return [];
  const refuse = (param: string, why: string) => {
    const message = `${param}: the loaded model ${id} (${kind}) ${why}.`;
    throw new HearthError("unsupported_by_model", message, { param });
  };
  const { choice = "none" } = toolOptions(request) ?? {};
  if (choice !== "none") refuse("tools", "calls no functions");
  const format = findFormat(request);
  if (format !== undefined) {
    refuse(format.param, "writes what it reads or hears; the form of its answer cannot be set");
  }
  const isSet = ([name]: [string, string]) =>
    !changesNothing(name, request[name as keyof ChatRequest]);
  const [refused] = Object.entries(refusedBy(info)).filter(isSet);
  if (refused !== undefined) refuse(...refused);
  return Object.entries(passedOverBy(info, request)).filter(isSet)
    .map(([name, why]) => `${name} is passed over: ${id} (${kind}) ${why}`);
}
