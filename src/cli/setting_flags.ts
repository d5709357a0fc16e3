import type { SettingNames } from "../base/errors.ts";

/** The flags of settings that errors of models are about. */
export const SETTING_FLAGS: SettingNames = {
  device: "--device",
  dtype: "--dtype",
  kind: "--kind",
  kvCacheDtype: "--kv-cache-dtype",
  kvCacheMb: "--kv-cache-mb",
  maxModelLength: "--max-model-len",
  offline: "--offline, HF_HUB_OFFLINE",
  speakerEncoderFolder: "--speaker-encoder",
  vadFolder: "--vad",
};
