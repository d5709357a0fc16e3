/**
 * The fields of a chat request that constrain the answer's format: OpenAI's `response_format`, vLLM's
 * `structured_outputs` and older `guided_*`, and llama.cpp's `grammar` and `json_schema`.
 *
 * @module
 */
import { z } from "zod";
import { anyText, flag, jsonSchema, listSchema, notServed, SCHEMA_WANTED, text } from "./fields.ts";

const MAX_CHOICES = 10_000;

/** A schema, or its JSON as text. */
const SchemaOrText = z.union([jsonSchema(), text()], {
  error: `${SCHEMA_WANTED}, or its text`,
});

const formatWanted = 'an object whose type is "text", "json_object" or "json_schema"';

const ResponseFormat = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text") }),
  z.object({ type: z.literal("json_object"), schema: jsonSchema().nullish() }),
  z.object({
    type: z.literal("json_schema"),
    json_schema: z.object({
      name: anyText().nullish(),
      description: anyText().nullish(),
      schema: jsonSchema(),
      strict: flag().nullish(),
    }, { error: "an object with a schema" }).nullish(),
    schema: jsonSchema().nullish().describe("The schema itself, without json_schema around it"),
  }).refine(({ json_schema: outer, schema }) => (outer ?? schema ?? null) !== null, {
    path: ["json_schema"],
    error: "an object with a schema",
  }),
], { error: formatWanted });

const ollamaWanted = `"json", or ${SCHEMA_WANTED}`;
/** Ollama's clients send an empty string for no format. */
const OllamaFormat = z.union([z.enum(["json", ""]), z.record(z.string(), z.unknown())], {
  error: ollamaWanted,
});

const Choices = listSchema(text(), { min: 1, max: MAX_CHOICES });

const StructuredOutputs = z.object({
  json: SchemaOrText.nullish(),
  regex: text().nullish(),
  choice: Choices.nullish(),
  grammar: text().nullish(),
  json_object: flag().nullish(),
  structural_tag: notServed(),
  whitespace_pattern: notServed(),
  disable_any_whitespace: notServed(),
  disable_additional_properties: notServed(),
}, { error: "an object with one of json, regex, choice and grammar" });

export const STRUCTURED_OUTPUT = {
  response_format: ResponseFormat.nullish()
    .describe("Format of the answer; a schema is enforced whether strict or not"),
  structured_outputs: StructuredOutputs.nullish().describe(
    "The same in vLLM's format: one of json, regex, choice and grammar",
  ),
  // Clients with forms to fill in send an empty string for no value.
  guided_json: SchemaOrText.nullish().describe("Older name of structured_outputs.json"),
  guided_regex: anyText().nullish().describe("Older name of structured_outputs.regex"),
  guided_choice: Choices.nullish().describe("Older name of structured_outputs.choice"),
  guided_grammar: anyText().nullish().describe("Older name of structured_outputs.grammar"),
  grammar: anyText().nullish().describe("llama.cpp's field: a grammar in GBNF"),
  json_schema: jsonSchema().nullish().describe("llama.cpp's field: a JSON schema"),
  format: OllamaFormat.nullish().describe('The same in Ollama\'s form: "json" or a JSON schema'),
};
