/**
 * All formats of calls, and detection by chat template.
 *
 * @module
 */
import type { CallFormat } from "./call_format.ts";
import { DEEPSEEK, DEEPSEEK_V31 } from "./formats/deepseek.ts";
import { FUNCTION_GEMMA, GEMMA } from "./formats/gemma.ts";
import { GLM } from "./formats/glm.ts";
import { GRANITE } from "./formats/granite.ts";
import { HERMES } from "./formats/hermes.ts";
import { LFM2 } from "./formats/lfm2.ts";
import { LLAMA } from "./formats/llama.ts";
import { MINICPM } from "./formats/minicpm.ts";
import { MISTRAL, MISTRAL_ARGS } from "./formats/mistral.ts";
import { PHI } from "./formats/phi.ts";
import { QWEN_XML } from "./formats/qwen_xml.ts";
import { SMOLLM3 } from "./formats/smollm3.ts";

/** Every format, the more specific ones first. */
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

/** The format of a chat template; a bare JSON object, Llama's, if it shows none. */
export function callFormatOf(template: string): CallFormat {
  return CALL_FORMATS.find((format) => format.matches(template)) ?? LLAMA;
}
