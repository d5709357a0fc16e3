/**
 * All call formats, and their detection by chat template.
 *
 * @module
 */
import type { CallFormat } from "./call_format.ts";
import { FUNCTION_GEMMA, GEMMA } from "./formats/gemma.ts";
import {
  DEEPSEEK,
  DEEPSEEK_V31,
  GRANITE,
  HERMES,
  MISTRAL,
  MISTRAL_ARGS,
  PHI,
  SMOLLM3,
} from "./formats/json.ts";
import { LFM2, LLAMA, MINICPM } from "./formats/python.ts";
import { GLM, QWEN_XML } from "./formats/tagged.ts";

/** All formats, the more specific ones first. */
export const CALL_FORMATS: readonly CallFormat[] = [
  GEMMA,
  FUNCTION_GEMMA,
  DEEPSEEK_V31,
  DEEPSEEK,
  MISTRAL_ARGS,
  MISTRAL,
  GLM,
  QWEN_XML,
  SMOLLM3,
  MINICPM,
  LFM2,
  PHI,
  GRANITE,
  HERMES,
  LLAMA,
];

/** The format that a chat template uses; Llama's bare JSON object if the template shows none. */
export function detectCallFormat(template: string): CallFormat {
  return CALL_FORMATS.find((format) => format.matches(template)) ?? LLAMA;
}
