/**
 * `POST /images/remove_background`.
 *
 * @module
 */
import { z } from "zod";
import { requireEndpoint, requireModelName } from "../../wire/models.ts";
import {
  MattingForm,
  MattingRequest,
  parseMattingForm,
  readMattingOptions,
} from "../../wire/matting_request.ts";
import {
  ImageCompletion,
  makeCompletionHead,
  makeImageCompletion,
} from "../../wire/chat_response.ts";
import { findUnserved } from "../../wire/unserved_fields.ts";
import { HearthError } from "../../base/errors.ts";
import type { MatteTask } from "../../models/task.ts";
import { findOnlyMedia, readPart } from "./media.ts";
import { isMultipart, readMultipart } from "./body/multipart.ts";
import { getMediaDeps, readRequest, warn } from "./requests.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route, UPLOAD_ERRORS } from "./route.ts";

const PATH = "/images/remove_background";
/** Name of the form field that holds the file. */
const FIELD = "image";

/** The endpoint that removes the background of an image, and answers with JSON or with the file. */
export function removeBackgroundRoute(deps: AppDeps): Route {
  return {
    method: "POST",
    path: PATH,
    operation: {
      summary: "Cut out the foreground of an image",
      description: "A JSON request is answered with a chat completion that holds the image; an " +
        "upload is answered with the PNG file itself. The result is as large as the image that was " +
        "sent, unless `crop` is set.",
      request: { "application/json": MattingRequest, "multipart/form-data": MattingForm },
      requestExamples: {
        "a file of the server": {
          model: "hearth-demo-matting",
          messages: [{
            role: "user",
            content: [{ type: "image", image_url: { url: "file:///home/me/photo.jpg" } }],
          }],
        },
      },
      response: {
        description: "The image with an alpha channel",
        content: { "application/json": ImageCompletion, "image/png": z.string() },
      },
      errors: [...JSON_ERRORS, ...UPLOAD_ERRORS, "model_not_found"],
    },
    handle: (call) =>
      isMultipart(call.req.raw) ? answerUpload(call, deps) : answerMessages(call, deps),
  };
}

async function answerMessages(call: Call, deps: AppDeps): Promise<Response> {
  const request = await readRequest(call, deps, { schema: MattingRequest, unserved: "image" });
  const info = deps.session.requireReady();
  requireModelName(info, request.model);
  requireEndpoint(info, PATH);
  const { part, param } = findOnlyMedia(request.messages, { wants: "image", info });
  const image = await readPart(part, { ...getMediaDeps(call, deps), param });
  const options = readMattingOptions(request);
  const png = await matte(call, deps, { image, param, options });
  return call.json(makeImageCompletion(makeCompletionHead(info.id), png));
}

async function answerUpload(call: Call, deps: AppDeps): Promise<Response> {
  const { session, bodyLimits } = deps;
  const info = session.requireRoom();
  requireEndpoint(info, PATH);
  const form = await readMultipart(call.req.raw, { fileField: FIELD, limits: bodyLimits });
  const { model, options } = parseMattingForm(form.fields);
  warn(call, ...findUnserved(Object.fromEntries(form.fields), "image"));
  if (model !== undefined) requireModelName(info, model);
  if (form.file === undefined) {
    throw new HearthError(
      "missing_file",
      `No image was sent: the form has no part named ${FIELD}.`,
      { param: FIELD },
    );
  }
  const png = await matte(call, deps, { image: form.file, param: FIELD, options });
  return call.body(png, 200, { "content-type": "image/png" });
}

async function matte(
  call: Call,
  { session }: AppDeps,
  task: Pick<MatteTask, "image" | "param" | "options">,
): Promise<Uint8Array<ArrayBuffer>> {
  const { png } = await session.answer(
    { type: "matte", requestId: call.get("requestId"), ...task },
    { signal: call.req.raw.signal },
  );
  return png;
}
