/**
 * The settings of a chat request, as the server's own API description has them.
 *
 * @module
 */
import { call } from "../server.ts";

/** A number that a chat request may carry. */
export interface SamplingField {
  readonly name: string;
  readonly isInteger: boolean;
  readonly min: number | undefined;
  readonly max: number | undefined;
  /** With its default. */
  readonly description: string;
}

/** What a chat request may set. */
export interface RequestSettings {
  readonly sampling: readonly SamplingField[];
  /** Values of `reasoning_effort`. */
  readonly efforts: readonly string[];
}

interface Schema {
  readonly enum?: readonly string[];
  readonly type?: string | readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly description?: string;
  /** Another name of a field. */
  readonly deprecated?: boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** Fields set by the page itself, or useless in it. */
const OWN = new Set(["n", "top_logprobs", "max_completion_tokens", "prompt_logprobs"]);

/** Reads them from `/openapi.json` of the model's server. */
export async function loadRequestSettings(model: string): Promise<RequestSettings> {
  const path = `openapi.json?model=${encodeURIComponent(model)}`;
  const description = await (await call(path)).json() as {
    components: { schemas: Record<string, Schema> };
  };
  const properties = description.components.schemas["ChatRequest"]?.properties ?? {};
  const effort = properties["reasoning_effort"];
  const efforts = [effort ?? {}, ...effort?.anyOf ?? []].find((each) => each.enum)?.enum ?? [];
  const sampling = Object.entries(properties).flatMap(([name, schema]) => {
    const number = [schema, ...schema.anyOf ?? []].find(isNumber);
    if (number === undefined || OWN.has(name) || schema.deprecated) return [];
    return [{
      name,
      isInteger: listTypes(number).includes("integer"),
      min: number.minimum,
      max: number.maximum,
      description: schema.description ?? "",
    }];
  });
  return { sampling, efforts };
}

function listTypes({ type }: Schema): readonly string[] {
  return type === undefined ? [] : [type].flat();
}

function isNumber(schema: Schema): boolean {
  return listTypes(schema).some((type) => type === "number" || type === "integer");
}
