/**
 * The endpoints about the server and its model: `GET /health`, `/info`, `/models`, `/audio/models`, and
 * `POST /shutdown`.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "../../wire/fields.ts";
import { type ListenSettings, MODEL_KINDS, VERSION } from "../../base/config.ts";
import type { AppDeps, Call, Env, Route } from "./route.ts";
import {
  AudioModelList,
  makeModelList,
  makeModelObject,
  ModelList,
  ModelObject,
  requireEndpoint,
  requireModelName,
} from "../../wire/models.ts";
import type { ModelInfo } from "../../worker/protocol.ts";
import type { MiddlewareHandler } from "hono";
import { HearthError } from "../../base/errors.ts";
import { stderrQueue } from "../../base/log.ts";
import { isLocal } from "./locality.ts";

const Info = z.object({
  id: z.string().describe("The loaded model"),
  kind: z.enum(MODEL_KINDS),
  dtype: z.string().describe("Data type of the weights"),
  device: z.enum(["webgpu", "cpu"]),
  adapter: z.string().describe("Name that the device reports"),
  context_length: integerFrom(1).nullable().describe(
    "Maximum number of tokens of prompt and completion together",
  ),
  max_sequences: integerFrom(1).describe("Requests that the model works on at once"),
  takes_audio: z.boolean().describe("Whether messages of a chat may hold audio"),
  takes_reference_voice: z.boolean().describe("Whether it can speak with the voice of a recording"),
  version: z.string().describe("Version of Hearth"),
}).meta({ id: "Info" });

/** Describes the running server. */
export function infoRoute({ session }: AppDeps): Route {
  return {
    method: "GET",
    path: "/info",
    operation: {
      summary: "The loaded model and its device",
      response: { description: "The model and its device", content: Info },
      errors: ["model_not_loaded", "shutting_down"],
    },
    handle: (call) => {
      const info = session.requireReady();
      return call.json(
        {
          id: info.id,
          kind: info.kind,
          dtype: info.dtype,
          device: info.backend,
          adapter: info.adapter,
          context_length: info.contextLength ?? null,
          max_sequences: info.maxSequences,
          takes_audio: info.takesAudio === true,
          takes_reference_voice: info.kind === "tts" && info.noRecordings === undefined,
          version: VERSION,
        } satisfies z.output<typeof Info>,
      );
    },
  };
}

const Health = z.object({ status: z.literal("ok") }).meta({ id: "Health" });

/** The health check. */
export function healthRoute({ session }: AppDeps): Route {
  return {
    method: "GET",
    path: "/health",
    operation: {
      summary: "Whether the model is loaded and the server accepts requests",
      response: {
        description: "The model is ready",
        content: Health,
      },
      errors: ["model_not_loaded", "shutting_down"],
    },
    handle: (call) => {
      session.requireReady();
      return call.json({ status: "ok" });
    },
  };
}

/** Lists the loaded model. */
export function modelsRoute({ session }: AppDeps): Route {
  return {
    method: "GET",
    path: "/models",
    operation: {
      summary: "The loaded model, in a list",
      response: { description: "The list", content: ModelList },
      errors: ["model_not_loaded", "shutting_down"],
    },
    handle: (call) => call.json(makeModelList(makeEntry(session.requireReady(), call))),
  };
}

/** Returns the model by its name, which may contain slashes. */
export function modelRoute({ session }: AppDeps): Route {
  return {
    method: "GET",
    path: "/models/:id{.+}",
    operation: {
      summary: "The loaded model",
      response: { description: "The model", content: ModelObject },
      errors: ["model_not_found", "model_not_loaded", "shutting_down"],
    },
    handle: (call) => {
      const info = session.requireReady();
      requireModelName(info, call.req.param("id")!);
      return call.json(makeModelObject(makeEntry(info, call)));
    },
  };
}

/** Lists the loaded model for clients of speech APIs, which read the field `models`. */
export function audioModelsRoute({ session }: AppDeps): Route {
  return {
    method: "GET",
    path: "/audio/models",
    operation: {
      summary: "The loaded speech model, in a list",
      response: { description: "The list", content: AudioModelList },
      errors: ["unsupported_by_model", "model_not_loaded", "shutting_down"],
    },
    handle: (call) => {
      const info = session.requireReady();
      if (info.kind !== "asr") requireEndpoint(info, "/audio/speech", "/audio/models");
      const list = makeModelList(makeEntry(info, call));
      return call.json({ ...list, models: list.data.map(({ id }) => ({ id, name: id })) });
    },
  };
}

/**
 * Makes the entry of a model list. `created` is null, as the specification wants, but a number below `/v1`, because
 * typed clients use these paths and need one.
 */
function makeEntry(info: ModelInfo, { req: { path } }: Call) {
  return { ...info, createdSeconds: path.startsWith("/v1/") ? info.createdSeconds : null };
}

const ShutdownAccepted = z.object({ message: z.string() }).meta({ id: "ShutdownAccepted" });

/** Dependencies of the endpoint that shuts a server down. */
export interface StopDeps {
  readonly settings: ListenSettings;
  /** Begins the shutdown sequence. Called when the response to an accepted shutdown request has been sent. */
  readonly requestShutdown: () => void;
}

/**
 * Writes the line that the specification requires for every shutdown request, accepted or not. It goes to standard
 * error verbatim, in every log format and at every level, for supervisors that look for it.
 */
export function announceShutdown({ settings }: Pick<StopDeps, "settings">): MiddlewareHandler<Env> {
  return async (_call, next) => {
    const { allowRemoteShutdown } = settings;
    const line = `[SHUTDOWN] Shutdown requested (remote_allowed: ${allowRemoteShutdown})\n`;
    stderrQueue.push(line);
    await next();
  };
}

/** The endpoint that stops the server once its response has been sent. */
export function shutdownRoute(
  { settings, requestShutdown }: StopDeps,
): Route {
  return {
    method: "POST",
    path: "/shutdown",
    operation: {
      summary: "Stop the server",
      description: "From this machine only, unless the server runs with --allow-remote-shutdown.",
      response: {
        description: "The server stops as soon as this answer is sent",
        content: ShutdownAccepted,
      },
      errors: ["forbidden"],
    },
    handle: (call) => {
      if (!settings.allowRemoteShutdown && !isLocal(call.req.raw, call.env, settings)) {
        throw new HearthError(
          "forbidden",
          "Shutdown is accepted from this machine only. Start the server with --allow-remote-shutdown to change that.",
        );
      }
      call.env.completed.then(requestShutdown);
      return call.json({ message: "The server is shutting down." });
    },
  };
}
