/**
 * `GET /openapi.json`: the API's description, made from the schemas by which requests are checked.
 *
 * @module
 */
import { z } from "zod";
import { chooseErrorSchema, ERROR_KINDS } from "../../../wire/error_body.ts";
import type { ErrorKind } from "../../../base/errors.ts";
import { VERSION } from "../../../base/config.ts";
import type { BodySchemas, Operation, Route } from "../route.ts";

type Json = Record<string, unknown>;

const COMPONENTS = "#/components/schemas/";

/** Errors that every endpoint may answer with. */
const COMMON_ERRORS: readonly ErrorKind[] = ["invalid_api_key", "forbidden"];

const ONE_MODEL = "One model, served from this machine. Every path also answers below `/v1`.";

/** Describes `routes` in OpenAPI 3.1. */
function describeApi(routes: readonly Route[], description: string): Json {
  const components = new Map<string, Json>();
  const paths: Record<string, Json> = {};
  for (const { path, method, operation } of routes) {
    if (operation === undefined) continue;
    const shownPath = path.replace(/:(\w+)(\{.*?\})?/g, "{$1}");
    paths[shownPath] = {
      ...paths[shownPath],
      [method.toLowerCase()]: describeOperation(operation, { path, method, components }),
      ...describeParameters(path),
    };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Hearth",
      version: VERSION,
      description,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "." }],
    tags: [...Object.keys(TAGS), "server"].map((name) => ({ name })),
    paths,
    components: {
      schemas: Object.fromEntries(components),
      securitySchemes: {
        apiKey: {
          type: "http",
          scheme: "bearer",
          description: "Required if the server has API keys",
        },
      },
    },
    security: [{}, { apiKey: [] }],
  };
}

/** Serves the description of `routes`, including this one. @param description describes the API as a whole. */
export function openApiRoute(routes: readonly Route[], description = ONE_MODEL): Route {
  const route: Route = {
    method: "GET",
    path: "/openapi.json",
    operation: {
      summary: "This description",
      response: {
        description: "OpenAPI 3.1",
        content: { "application/json": z.record(z.string(), z.unknown()) },
      },
      errors: [],
    },
    handle: (call) => call.json(document ??= describeApi([...routes, route], description)),
  };
  // Made at the first request: it takes some 40 ms, which would delay the server's start.
  let document: Json | undefined;
  return route;
}

const ROOT = "/";

/** The prefixes of the paths in each group of endpoints. The root is a whole path, not a prefix. */
const TAGS: Readonly<Record<string, readonly string[]>> = {
  chat: ["/chat", "/responses", "/messages", "/completions", "/apply-template"],
  audio: ["/audio", "/realtime"],
  images: ["/images"],
  texts: ["/embed", ROOT, "/rerank", "/v2", "/score", "/tokenize", "/detokenize"],
};

function toTag(path: string): string {
  const isIn = ([, beginnings]: [string, readonly string[]]) =>
    beginnings.some((each) => path === each || (each !== ROOT && path.startsWith(each)));
  return Object.entries(TAGS).find(isIn)?.[0] ?? "server";
}

function toOperationId({ path, method }: Endpoint): string {
  const name = path.replace(/[/:{}.+]+/g, "_").replace(/^_|_$/g, "");
  return method === "DELETE" ? `delete_${name}` : name || "root";
}

interface Endpoint {
  readonly path: string;
  readonly method: Route["method"];
  /** Collects the named schemas. */
  readonly components: Map<string, Json>;
}

function describeOperation(operation: Operation, endpoint: Endpoint): Json {
  const { summary, description, request, response } = operation;
  return {
    summary,
    ...(description !== undefined && { description }),
    tags: [toTag(endpoint.path)],
    operationId: toOperationId(endpoint),
    ...(request && {
      requestBody: {
        required: true,
        content: describeContent(request, endpoint, operation.requestExamples),
      },
    }),
    responses: {
      [response.status ?? 200]: {
        description: response.description,
        content: describeContent(response.content, endpoint),
      },
      ...describeErrors([...operation.errors, ...COMMON_ERRORS], endpoint),
    },
  };
}

function describeParameters(path: string): Json {
  const names = [...path.matchAll(/:(\w+)/g)].map((match) => match[1]!);
  if (names.length === 0) return {};
  const parameters = names.map((name) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  return { parameters };
}

function describeErrors(kinds: readonly ErrorKind[], endpoint: Endpoint): Json {
  const byStatus = Map.groupBy(new Set(kinds), (kind) => ERROR_KINDS[kind].status);
  return Object.fromEntries(
    [...byStatus].map(([status, kindsOfStatus]) => [status, {
      description: kindsOfStatus.join(", "),
      content: describeContent(chooseErrorSchema(endpoint.path, status), endpoint),
    }]),
  );
}

function describeContent(
  content: BodySchemas,
  endpoint: Endpoint,
  examples?: Operation["requestExamples"],
): Json {
  const named = examples &&
    Object.fromEntries(Object.entries(examples).map(([name, value]) => [name, { value }]));
  const byType = content instanceof z.ZodType ? { "application/json": content } : content;
  return Object.fromEntries(
    Object.entries(byType).map(([type, schema]) => [type, {
      schema: describeSchema(schema, endpoint.components),
      ...(named !== undefined && type === "application/json" && { examples: named }),
    }]),
  );
}

/** Describes a schema as JSON Schema. Schemas with an id are added to `components` and referred to. */
function describeSchema(schema: z.ZodType, components: Map<string, Json>): Json {
  const { $schema: _, $defs = {}, ...own } = z.toJSONSchema(schema, {
    io: "input",
    // Checks written in code cannot be represented. The descriptions of their fields say what they check.
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) => {
      if (zodSchema instanceof z.ZodObject) requireFields(zodSchema, jsonSchema);
      // For an integer without a maximum, zod writes the largest safe integer.
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  for (const [name, definition] of Object.entries($defs)) {
    components.set(name, withComponentRefs(definition));
  }
  return withComponentRefs(own);
}

/**
 * Lists the required fields of an object, because zod leaves out required fields that are preprocessed. If the object's
 * metadata has such a list, that list is kept: it leaves out fields for which clients may send another field instead.
 */
function requireFields(object: z.ZodObject, schema: Json): void {
  if (object.meta()?.["required"] !== undefined) return;
  const required = Object.entries(object.shape).filter(([, field]) => {
    return !z.safeParse(field, undefined).success;
  });
  if (required.length > 0) schema["required"] = required.map(([name]) => name);
}

function withComponentRefs(schema: unknown): Json {
  return JSON.parse(JSON.stringify(schema).replaceAll("#/$defs/", COMPONENTS));
}
