import type { SettingNames } from "../errors.ts";

/** The flags of settings that errors of models are about. */
export const SETTING_FLAGS: SettingNames = {
  dtype: "--dtype",
  kind: "--kind",
  kvCacheMb: "--kv-cache-mb",
  speakerEncoderFolder: "--speaker-encoder",
  vadFolder: "--vad",
};
