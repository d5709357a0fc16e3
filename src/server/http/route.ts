/**
 * An endpoint: its path, its handler, and its description for the API.
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
import type { OtlpExporter } from "./spans.ts";

/** Dependencies of the endpoints. */
export interface AppDeps {
  readonly session: Session;
  readonly settings: ServerSettings;
  /** Begins the shutdown sequence. Called when the response to an accepted shutdown request has been sent. */
  readonly requestShutdown: () => void;
  /** Limits on request bodies; the specification's if absent. */
  readonly bodyLimits?: BodyLimits | undefined;
  /** Limits on fetched media; if absent, the limits that the API documents. */
  readonly mediaLimits?: MediaLimits | undefined;
  /** Connections of the port that the app is served on, if there is one. */
  readonly connections?: ConnectionFigures | undefined;
  /** Exports the spans of requests; without it, there is no tracing. */
  readonly spans?: OtlpExporter | undefined;
}

/** Hono's context variables of a request. */
export interface Env {
  Bindings: Exchange;
  Variables: {
    /** The request id that the client sent, or a new one. */
    requestId: string;
    /** Path of the route that serves the request, without `/v1`. */
    route: string | undefined;
    /** Label of the API key that the caller sent. */
    keyLabel: string | undefined;
    /** In a router: id of the model that the request was forwarded to; `none` if it was not forwarded. */
    model: string | undefined;
    /** Warnings about fields that were ignored; absent if there are none. */
    warnings: readonly string[] | undefined;
  };
}

/** A request that is being handled. */
export type Call = Context<Env>;

/** Schemas of a body by its media type, or only the schema of its JSON. */
export type BodySchemas = z.ZodType | Readonly<Record<string, z.ZodType>>;

/** An endpoint in the API's description. */
export interface Operation {
  readonly summary: string;
  readonly description?: string;
  readonly request?: BodySchemas;
  /** Example bodies, by title. */
  readonly requestExamples?: Readonly<Record<string, unknown>>;
  readonly response: {
    /** Status of a success; 200 if absent. */
    readonly status?: number;
    readonly description: string;
    readonly content: BodySchemas;
  };
  readonly errors: readonly ErrorKind[];
}

/** Errors of every request that runs the model. */
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

/** Errors of every JSON request. */
export const JSON_ERRORS: readonly ErrorKind[] = ["invalid_json", ...MODEL_ERRORS];

/** Errors of every JSON request with texts for the model. */
export const TEXT_ERRORS: readonly ErrorKind[] = [...JSON_ERRORS, "context_length_exceeded"];

/** Errors of every request that uploads a file. */
export const UPLOAD_ERRORS: readonly ErrorKind[] = [
  "missing_file",
  "invalid_media",
  ...MODEL_ERRORS,
];

/** An endpoint, which also answers below `/v1`. */
export interface Route {
  readonly method: "GET" | "POST" | "DELETE";
  /** Path in Hono's notation. */
  readonly path: string;
  /** Absent for pages that are not part of the API. */
  readonly operation?: Operation;
  /** Handles a request. @throws {HearthError} for errors of the client or the model. */
  readonly handle: (call: Call) => Response | Promise<Response>;
}
