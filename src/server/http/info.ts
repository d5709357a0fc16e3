/**
 * `GET /health` and `GET /info`: whether the model is ready, which one it is, and its device.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "../../wire/fields.ts";
import { MODEL_KINDS } from "../../base/config.ts";
import { VERSION } from "../../base/version.ts";
import type { AppDeps, Route } from "./route.ts";

const Info = z.object({
  id: z.string().describe("The loaded model"),
  kind: z.enum(MODEL_KINDS),
  dtype: z.string().describe("Of its weights"),
  device: z.enum(["webgpu", "cpu"]),
  adapter: z.string().describe("The device by its own name"),
  context_length: integerFrom(1).nullable().describe("Tokens of prompt and completion together"),
  max_sequences: integerFrom(1).describe("Requests that the model works on at once"),
  takes_reference_voice: z.boolean().describe("Whether it can speak with the voice of a recording"),
  version: z.string().describe("Of Hearth"),
}).meta({ id: "Info" });

/** The description of the running server. */
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
      summary: "Whether the model is loaded and the server takes requests",
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
