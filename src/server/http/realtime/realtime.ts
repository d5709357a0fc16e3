/**
 * `GET /realtime`: live transcription over a WebSocket.
 *
 * @module
 */
import { HearthError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { requireEndpoint } from "../../../wire/models.ts";
import { BODY_LIMITS } from "../body/body.ts";
import type { ServerMetrics } from "../metrics.ts";
import { MessageSocket } from "../connection/message_socket.ts";
import type { AppDeps, Call, Route } from "../route.ts";
import { LiveSession } from "./live_session.ts";

const PATH = "/realtime";
const MIB = 2 ** 20;
/** Room for a JSON event with 15 MiB of audio in base64. OpenAI's API takes as much. */
const MAX_MESSAGE_BYTES = 20 * MIB + 1024;

/** The endpoint for live transcription sessions. */
export function realtimeRoute(deps: AppDeps, metrics: ServerMetrics): Route {
  return {
    method: "GET",
    path: PATH,
    operation: {
      summary: "Transcribe live speech",
      description:
        "A WebSocket of OpenAI's realtime API, `?intent=transcription`. The client sends " +
        "`session.update` (or `transcription_session.update`), `input_audio_buffer.append`, " +
        "`.commit` and `.clear`; the server `session.created` and `.updated`, " +
        "`input_audio_buffer.speech_started`, `.speech_stopped`, `.committed` and `.cleared`, " +
        "`conversation.item.input_audio_transcription.delta`, `.completed` and `.failed`, and " +
        "`error`. Browsers send the API key as the sub-protocol `openai-insecure-api-key.<key>` " +
        "in addition to `realtime`.",
      response: { status: 101, description: "The connection is a WebSocket", content: {} },
      errors: [
        "invalid_value",
        "unsupported_by_model",
        "upgrade_required",
        "model_not_loaded",
        "shutting_down",
      ],
    },
    handle: (call) => {
      const answer = openSession(call, deps);
      metrics.beginLiveSession(call.env.completed);
      return answer;
    },
  };
}

function openSession(call: Call, { session, bodyLimits = BODY_LIMITS }: AppDeps): Response {
  requireEndpoint(session.requireReady(), PATH);
  const { intent } = call.req.query();
  if (intent !== undefined && intent !== "transcription") {
    const message = `intent: want transcription, saw ${JSON.stringify(intent.slice(0, 40))}.`;
    throw new HearthError("invalid_value", message, { param: "intent" });
  }
  const { upgrade } = call.env;
  if (upgrade === undefined) {
    call.header("upgrade", "websocket");
    const message =
      "This is the address of a WebSocket: want a WebSocket handshake, saw a plain request.";
    throw new HearthError("upgrade_required", message);
  }
  const { budget } = bodyLimits;
  const isBeta = isBetaClient(call);
  const requestId = call.get("requestId");
  return upgrade((connection) => {
    const limits = { protocol: "realtime", maxMessageBytes: MAX_MESSAGE_BYTES, budget };
    void MessageSocket.accept(connection, limits, async (socket) => {
      const live = new LiveSession({ socket, session, requestId, budget, isBeta });
      await live.run();
      log.info("a live session has ended", { requestId, ...live.figures });
    });
  });
}

/** Whether the client uses the events of the API's beta version. */
function isBetaClient({ req }: Call): boolean {
  const protocols = req.header("sec-websocket-protocol")?.split(/[\s,]+/) ?? [];
  return /\brealtime=v1\b/.test(req.header("openai-beta") ?? "") ||
    protocols.includes("openai-beta.realtime-v1");
}
