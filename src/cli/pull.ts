/**
 * `pull`: downloads the files that serving a model needs, or their newer versions.
 *
 * @module
 */
import { nameModel } from "../hub/resolve.ts";
import { stderrQueue } from "../base/log.ts";
import { SparseLines } from "./download_report.ts";
import type { FlagValues } from "./flag.ts";
import type { PULL_FLAGS } from "./flags.ts";
import { DOWNLOAD_STOPPED, getModel } from "./get_model.ts";
import { printLine } from "./print.ts";
import { ProgressLine, removeOnStopSignal } from "./progress_line.ts";
import { quietenVulkan } from "./quieten_vulkan.ts";

/**
 * Downloads a model.
 *
 * @returns 0 when its files are there.
 * @throws {StartupError} when they cannot be had.
 */
export async function pull(name: string, flags: FlagValues<typeof PULL_FLAGS>): Promise<number> {
  const model = await nameModel(name, undefined, { asksHub: !flags.offline });
  if (!("hubId" in model)) {
    printLine(`${model.id} is on this machine already: ${model.folder}`);
    return 0;
  }
  quietenVulkan();
  const progressLine = new ProgressLine(model.id);
  removeOnStopSignal(progressLine, () => DOWNLOAD_STOPPED);
  const lines = new SparseLines(({ what, fraction, detail }) => {
    const share = Math.floor((fraction ?? 0) * 100);
    stderrQueue.push(`${model.id}: ${what} ${share}%, ${detail}\n`);
  });
  try {
    const { folder } = await getModel(model, {
      ...flags,
      refresh: true,
      onProgress: Deno.stderr.isTerminal()
        ? (progress) => progressLine.show(progress)
        : (progress) => progress.fraction !== undefined && lines.show(progress),
    });
    await progressLine.remove();
    printLine(`${model.id} is ready to be served from ${folder}`);
    return 0;
  } finally {
    progressLine.clear();
  }
}
