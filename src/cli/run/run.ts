/**
 * `run`: uses a model without a server, once or in a conversation.
 *
 * @module
 */
import type { ModelKind, ResolvedModel } from "../../base/config.ts";
import { HearthError, StartupError } from "../../base/errors.ts";
import { openAnyFolder } from "../../hub/model_folder.ts";
import { findCompanions, findFfmpeg } from "../flag_values.ts";
import { nameModel } from "../../hub/resolve.ts";
import { configureLog } from "../../base/log.ts";
import { identifyFamily } from "../../models/load/identify_family.ts";
import { Session } from "../../server/session/session.ts";
import { chat, requireChatKind } from "./chat.ts";
import { SETTING_FLAGS } from "../shared_flags.ts";
import { type FlagValues, toFlagName } from "../command.ts";
import type { RUN_FLAGS } from "../flags.ts";
import {
  DOWNLOAD_STOPPED,
  getModel,
  ProgressLine,
  quietenVulkan,
  removeOnStopSignal,
} from "../loading.ts";
import { readInputs } from "./input.ts";
import {
  nameResults,
  namesFolder,
  openFiles,
  openOutput,
  type Output,
  requireExtension,
} from "./output.ts";
import { RUNNERS, type RunTask } from "./tasks.ts";
import { TimedSession } from "./timed_session.ts";

/**
 * Loads the model, runs it on the inputs and writes the results. Without inputs, at a terminal, starts a conversation.
 *
 * @param options.prompt an input that comes before the inputs of the flags.
 * @returns 0 on success, 1 when the model could not be loaded.
 * @throws {StartupError} when there is no such model, or when an input, a flag or the output path does not suit it.
 */
export async function run(
  name: string,
  { prompt, ...flags }: FlagValues<typeof RUN_FLAGS> & { readonly prompt: string | undefined },
): Promise<number> {
  const logSettings = { level: "warn", format: "text" } as const;
  configureLog(logSettings);
  quietenVulkan();
  const named = await nameModel(name, undefined, { asksHub: !flags.offline });
  const given = [...(prompt === undefined ? [] : [prompt]), ...flags.input];
  const isChat = given.length === 0 && flags.output === undefined && isTerminal();
  const inputs = isChat ? [] : await readInputs(given);
  const companions = await findCompanions(flags);
  const isFolder = flags.output !== undefined && await namesFolder(flags.output);
  const output = await openOutput(isFolder ? undefined : flags.output);
  const progressLine = new ProgressLine(named.id);
  let isDownloading = "hubId" in named;
  let closeChat = () => {};
  removeOnStopSignal(progressLine, () => {
    closeChat();
    return isDownloading ? DOWNLOAD_STOPPED : undefined;
  });
  const model = await getModel(named, {
    ...flags,
    onProgress: (progress) => progressLine.show(progress),
  }).finally(() => progressLine.clear());
  isDownloading = false;
  const kindFlags = KIND_FLAGS.filter((key) => flags[key] !== undefined);
  if (isChat || flags.output !== undefined || kindFlags.length > 0) {
    const kind = flags.kind ?? await findKind(model);
    if (isChat) requireChatKind(kind);
    if (isFolder && !FILE_KINDS.includes(kind)) {
      throw new StartupError(
        `${flags.output} cannot be written: it is a folder; name a file in it.`,
      );
    }
    if (flags.output !== undefined && !isFolder) requireExtension(kind, flags.output);
    for (const key of kindFlags) requireFlag(kind, key);
  }
  const { device, cpuRuntime, cpuThreads, dtype, kind } = flags;
  const maxImagePixels = flags.maxImageMegapixels * 1e6;
  const ffmpeg = await findFfmpeg(flags.ffmpeg);
  const { maxPdfPages } = flags;
  const engine = {
    ...{ prefixCache: isChat, maxSequences: 1, cpuThreads, maxImagePixels, maxPdfPages, ffmpeg },
  };
  const load = {
    ...companions,
    model,
    device,
    cpuRuntime,
    dtype,
    kind,
    engine,
    log: logSettings,
    settingNames: SETTING_FLAGS,
  };
  const session = new Session({ load, maxQueue: 0, exitsAfterStop: true });
  try {
    const startMs = performance.now();
    session.start();
    if (!await waitUntilReady(session, progressLine)) return 1;
    await progressLine.remove();
    const asked = flags.verbose ? new TimedSession(session, performance.now() - startMs) : session;
    if (isChat) await chat({ ...flags, session: asked }, (close) => closeChat = close);
    else await writeResult({ ...flags, session: asked, inputs }, { output, isFolder });
    return 0;
  } finally {
    await session.stop();
  }
}

/** Whether there is a user to talk to: both standard streams are terminals. */
function isTerminal(): boolean {
  return Deno.stdin.isTerminal() && Deno.stdout.isTerminal();
}

/** Kinds of models that support each flag. */
const KINDS_OF = {
  temperature: ["text", "vision", "ocr", "asr"],
  maxTokens: ["text", "vision", "ocr", "asr"],
  voice: ["tts"],
  speed: ["tts"],
} as const satisfies Partial<Record<keyof typeof RUN_FLAGS, readonly ModelKind[]>>;

const KIND_FLAGS = Object.keys(KINDS_OF) as (keyof typeof KINDS_OF)[];

/** Checks that models of this kind support a flag. @throws {StartupError} when they do not. */
function requireFlag(kind: ModelKind, key: keyof typeof KINDS_OF): void {
  const kinds: readonly ModelKind[] = KINDS_OF[key];
  if (kinds.includes(kind)) return;
  throw new StartupError(
    `--${toFlagName(key)} is for models of kind ${
      kinds.join(", ")
    }, and this one is of kind ${kind}.`,
  );
}

/** Finds the kind of a model. @throws {StartupError} when its folder is of no known kind. */
async function findKind({ folder }: ResolvedModel): Promise<ModelKind> {
  return identifyFamily(await openAnyFolder(folder)).kind;
}

/** Waits until the model is loaded. @returns false if it cannot be loaded; the log then says why. */
async function waitUntilReady(session: Session, progressLine: ProgressLine): Promise<boolean> {
  const unsubscribe = session.onStateChange((state) => {
    if (state.phase === "loading" && state.progress) progressLine.show(state.progress);
    else progressLine.clear();
  });
  await session.ready().catch(() => {});
  unsubscribe();
  return session.state.phase === "ready";
}

/** Kinds of models that produce one file for each input. */
const FILE_KINDS: readonly ModelKind[] = ["matting"];

async function writeResult(
  task: RunTask,
  { output: single, isFolder }: { readonly output: Output; readonly isFolder: boolean },
): Promise<void> {
  const { kind } = task.session.requireReady();
  const { inputs } = task;
  const hasFiles = FILE_KINDS.includes(kind) && (isFolder || inputs.length > 1);
  const output = hasFiles
    ? openFiles(await nameResults(task.output, { inputs, extension: ".png" }))
    : single;
  try {
    for await (const chunk of RUNNERS[kind](task)) output.write(chunk);
  } catch (error) {
    if (!(error instanceof HearthError)) throw error;
    throw new StartupError(error.message, { cause: error });
  }
  output.finish();
}
