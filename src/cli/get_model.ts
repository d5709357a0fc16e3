/**
 * Finds or downloads the model that a command names, with progress.
 *
 * @module
 */
import type { DeviceChoice, Dtype, ModelKind, ResolvedModel } from "../base/config.ts";
import type { HubModel } from "../hub/resolve.ts";
import { readHubSettings } from "../hub/settings.ts";
import type { LoadProgress } from "../models/folder/open_context.ts";
import { describeDownload } from "./download_report.ts";

/** What somebody is told who stops a command while it downloads. */
export const DOWNLOAD_STOPPED =
  "Stopped. What has been downloaded is kept, and the next download continues from there.";

/** Which weights, and how to get them. */
interface GetModelOptions {
  readonly device: DeviceChoice;
  readonly dtype: Dtype | undefined;
  readonly kind: ModelKind | undefined;
  readonly offline: boolean;
  /** Ask the hub for the newest revision. */
  readonly refresh?: boolean;
  readonly onProgress: (progress: LoadProgress) => void;
  readonly signal?: AbortSignal;
}

/**
 * The model with its folder; one of the hub is downloaded unless it is cached.
 *
 * @throws {StartupError} when it cannot be found or downloaded.
 */
export async function getModel(
  model: ResolvedModel | HubModel,
  { device: choice, offline, onProgress, kind, dtype, ...options }: GetModelOptions,
): Promise<ResolvedModel> {
  if (!("hubId" in model)) return model;
  onProgress({ what: "looking for its files" });
  // Imported late: models in the cache start faster without these.
  const { acquireModel } = await import("../hub/acquire.ts");
  const { classifyDevice } = await import("../device/device_class.ts");
  const { chooseFiles } = await import("../models/load/model_files.ts");
  const device = await classifyDevice(choice);
  return await acquireModel(model, {
    ...options,
    chooseFiles: (folder) => chooseFiles(folder, { kind, dtype, device }),
    settings: readHubSettings(Deno.env.toObject(), { offline }),
    onProgress: (progress) => onProgress(describeDownload(progress)),
  });
}
