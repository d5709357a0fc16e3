/**
 * What an endpoint is: how it is reached, what it does, and what the API description says of it.
 *
 * @module
 */
import type { Context } from "hono";
import type { z } from "zod";
import type { ServerSettings } from "../config.ts";
import type { ErrorKind } from "../errors.ts";
import type { Session } from "../session/session.ts";
import type { BodyLimits } from "./body.ts";
import type { ConnectionFigures } from "./connections.ts";
import type { MediaLimits } from "./media.ts";
import type { Exchange } from "./node_bridge.ts";
import type { OtlpExporter } from "./otlp_exporter.ts";

/** What the endpoints work with. */
export interface AppDeps {
  readonly session: Session;
  readonly settings: ServerSettings;
  /** Begins the shutdown sequence; called when the answer to an accepted request for it has been sent. */
  readonly requestShutdown: () => void;
  /** The specification's limits if absent. */
  readonly bodyLimits?: BodyLimits | undefined;
  /** Those of the API's decisions if absent. */
  readonly mediaLimits?: MediaLimits | undefined;
  /** Of the port the app is served on, if it is. */
  readonly connections?: ConnectionFigures | undefined;
  /** Takes the spans of requests; there are none if absent. */
  readonly spans?: OtlpExporter | undefined;
}

/** What Hono carries with a request. */
export interface Env {
  Bindings: Exchange;
  Variables: {
    /** The client's own, or a new one. */
    requestId: string;
    /** Path of the route that serves the request, without `/v1`. */
    route: string | undefined;
    /** Of the API key that the caller showed. */
    keyLabel: string | undefined;
  };
}

/** A request on its way through the server. */
export type Call = Context<Env>;

/** How the API description shows an endpoint. */
export interface Operation {
  readonly summary: string;
  readonly description?: string;
  /** Body by media type. */
  readonly request?: Readonly<Record<string, z.ZodType>>;
  /** Bodies that the endpoint takes, by what each is an example of. */
  readonly requestExamples?: Readonly<Record<string, unknown>>;
  readonly response: {
    readonly description: string;
    /** Body by media type. */
    readonly content: Readonly<Record<string, z.ZodType>>;
  };
  readonly errors: readonly ErrorKind[];
}

/** What can go wrong with a request that the model is to answer, whatever its body. */
const MODEL_ERRORS = [
  "invalid_value",
  "unsupported_by_model",
  "request_timeout",
  "payload_too_large",
  "unsupported_media_type",
  "overloaded",
  "inference_failed",
  "model_not_loaded",
] as const satisfies readonly ErrorKind[];

/** Of a request in JSON. */
export const JSON_ERRORS: readonly ErrorKind[] = ["invalid_json", ...MODEL_ERRORS];

/** Of a request that uploads a file. */
export const UPLOAD_ERRORS: readonly ErrorKind[] = [
  "missing_file",
  "invalid_media",
  ...MODEL_ERRORS,
];

/** One endpoint; it also answers below `/v1`. */
export interface Route {
  readonly method: "GET" | "POST" | "DELETE";
  /** In Hono's notation. */
  readonly path: string;
  /** Absent for pages that are not part of the API. */
  readonly operation?: Operation;
  /** @throws {HearthError} for what goes wrong by the client's doing or the model's. */
  readonly handle: (call: Call) => Response | Promise<Response>;
}
