/**
 * `run`: uses a model once, without a server.
 *
 * @module
 */
import { HearthError, StartupError } from "../errors.ts";
import { SETTING_FLAGS } from "./setting_flags.ts";
import { nameModel } from "../hub/resolve.ts";
import { configureLog } from "../log.ts";
import { Session } from "../session/session.ts";
import { writeBytes, writeText } from "../write_text.ts";
import { findCompanions } from "./find_folder.ts";
import type { FlagValues } from "./flag.ts";
import type { RUN_FLAGS } from "./flags.ts";
import { getModel } from "./get_model.ts";
import { ProgressLine } from "./progress_line.ts";
import { quietenVulkan } from "./quieten_vulkan.ts";
import { readInputs } from "./run_input.ts";
import { RUNNERS, type RunTask } from "./run_tasks.ts";
import { TimedSession } from "./timed_session.ts";

/** Where results go. */
interface Output extends Disposable {
  /** @throws {StartupError} where bytes would end up on a terminal. */
  write(piece: string | Uint8Array): void;
}

/**
 * Loads the model, runs it on the inputs and writes the results.
 *
 * @returns 0 on success, 1 when the model could not be loaded.
 * @throws {StartupError} when there is no such model, or an input or the output path does not suit it.
 */
export async function run(name: string, flags: FlagValues<typeof RUN_FLAGS>): Promise<number> {
  const logSettings = { level: "warn", format: "text" } as const;
  configureLog(logSettings);
  quietenVulkan();
  const named = await nameModel(name);
  const inputs = await readInputs(flags.input);
  const companions = await findCompanions(flags);
  using output = openOutput(flags.output);
  const progressLine = new ProgressLine(named.id);
  const model = await getModel(named, {
    ...flags,
    onProgress: (progress) => progressLine.show(progress),
  }).finally(() => progressLine.clear());
  const { device, cpuRuntime, cpuThreads, dtype, kind } = flags;
  const maxImagePixels = flags.maxImageMegapixels * 1e6;
  const engine = { prefixCache: false, maxSequences: 1, cpuThreads, maxImagePixels };
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
    if (!await untilReady(session, progressLine)) return 1;
    await progressLine.remove();
    const asked = flags.verbose ? new TimedSession(session, performance.now() - startMs) : session;
    await writeResult({ ...flags, session: asked, inputs }, output);
    return 0;
  } finally {
    await session.stop();
  }
}

/** Whether the model was loaded; if not, the log says why. */
async function untilReady(session: Session, progressLine: ProgressLine): Promise<boolean> {
  const unsubscribe = session.onStateChange((state) => {
    if (state.phase === "loading" && state.progress) progressLine.show(state.progress);
    else progressLine.clear();
  });
  await session.ready().catch(() => {});
  unsubscribe();
  return session.state.phase === "ready";
}

async function writeResult(task: RunTask, output: Output): Promise<void> {
  const { kind } = task.session.requireReady();
  try {
    for await (const piece of RUNNERS[kind](task)) output.write(piece);
  } catch (error) {
    if (!(error instanceof HearthError)) throw error;
    throw new StartupError(error.message, { cause: error });
  }
}

/**
 * Opened before the model is loaded, so that a wrong path fails at once. What the file holds is lost only once there is
 * something to write.
 */
function openOutput(path: string | undefined): Output {
  if (path === undefined) {
    return { write: writeToStdout, [Symbol.dispose]: () => {} };
  }
  try {
    const file = Deno.openSync(path, { write: true, create: true });
    // Devices and pipes have no length to cut.
    let holdsOld = file.statSync().isFile;
    const write = (piece: string | Uint8Array): void => {
      if (holdsOld) file.truncateSync(0);
      holdsOld = false;
      writePiece(file, piece);
    };
    return { write, [Symbol.dispose]: () => file.close() };
  } catch (error) {
    throw new StartupError(`${path} cannot be written: ${(error as Error).message}`);
  }
}

function writeToStdout(piece: string | Uint8Array): void {
  if (typeof piece !== "string" && Deno.stdout.isTerminal()) {
    throw new StartupError("The result is binary: name an output file with -o.");
  }
  writePiece(Deno.stdout, piece);
}

function writePiece(target: typeof Deno.stdout | Deno.FsFile, piece: string | Uint8Array): void {
  if (typeof piece === "string") writeText(target, piece);
  else writeBytes(target, piece);
}
