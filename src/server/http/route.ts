/**
 * An endpoint: its path, its handler and its API description.
 *
 * @module
 */
import type { Context } from "hono";
import type { z } from "zod";
import type { ServerSettings } from "../../base/config.ts";
import type { ErrorKind } from "../../base/errors.ts";
import type { Session } from "../session/session.ts";
import type { BodyLimits } from "./body/body.ts";
import type { ConnectionFigures } from "./connection/connections.ts";
import type { MediaLimits } from "./media.ts";
import type { Exchange } from "./connection/node_bridge.ts";
import type { OtlpExporter } from "./otlp_exporter.ts";

/** The dependencies of the endpoints. */
export interface AppDeps {
  readonly session: Session;
  readonly settings: ServerSettings;
  /** Begins the shutdown sequence; called when the answer to an accepted request for it has been sent. */
  readonly requestShutdown: () => void;
  /** The specification's limits if absent. */
  readonly bodyLimits?: BodyLimits | undefined;
  /** Those of the API's decisions if absent. */
  readonly mediaLimits?: MediaLimits | undefined;
  /** Connections of the port that the app is served on, if any. */
  readonly connections?: ConnectionFigures | undefined;
  /** Exports the spans of requests; no tracing if absent. */
  readonly spans?: OtlpExporter | undefined;
}

/** Hono's context variables of a request. */
export interface Env {
  Bindings: Exchange;
  Variables: {
    /** The client's own, or a new one. */
    requestId: string;
    /** Path of the route that serves the request, without `/v1`. */
    route: string | undefined;
    /** Label of the API key that the caller showed. */
    keyLabel: string | undefined;
    /** Id of the model that a router passed the request to. */
    model: string | undefined;
    /** What was passed over in the request; absent if nothing was. */
    warnings: readonly string[] | undefined;
  };
}

/** A request being handled. */
export type Call = Context<Env>;

/** Schemas of a body by media type; a schema alone is that of JSON. */
export type BodySchemas = z.ZodType | Readonly<Record<string, z.ZodType>>;

/** The API description of an endpoint. */
export interface Operation {
  readonly summary: string;
  readonly description?: string;
  readonly request?: BodySchemas;
  /** Example bodies, by summary. */
  readonly requestExamples?: Readonly<Record<string, unknown>>;
  readonly response: {
    /** 200 if absent. */
    readonly status?: number;
    readonly description: string;
    readonly content: BodySchemas;
  };
  readonly errors: readonly ErrorKind[];
}

/** Errors of every request to the model. */
const MODEL_ERRORS = [
  "invalid_value",
  "unsupported_by_model",
  "request_timeout",
  "payload_too_large",
  "unsupported_media_type",
  "overloaded",
  "inference_failed",
  "model_not_loaded",
  "shutting_down",
] as const satisfies readonly ErrorKind[];

/** Errors of a request in JSON. */
export const JSON_ERRORS: readonly ErrorKind[] = ["invalid_json", ...MODEL_ERRORS];

/** Errors of a request that uploads a file. */
export const UPLOAD_ERRORS: readonly ErrorKind[] = [
  "missing_file",
  "invalid_media",
  ...MODEL_ERRORS,
];

/** One endpoint; it also answers below `/v1`. */
export interface Route {
  readonly method: "GET" | "POST" | "DELETE";
  /** Path in Hono's notation. */
  readonly path: string;
  /** Absent for pages that are not part of the API. */
  readonly operation?: Operation;
  /** @throws {HearthError} for errors of the client or the model. */
  readonly handle: (call: Call) => Response | Promise<Response>;
}
