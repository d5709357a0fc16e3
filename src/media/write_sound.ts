/**
 * Writes sound as a file of any supported format.
 *
 * @module
 */
import type { SoundFormat, SoundWriter } from "./sound_format.ts";
import { createFlacWriter } from "./sound/flac_writer.ts";
import { createMp3Writer } from "./sound/mp3_writer.ts";
import { createOpusWriter } from "./sound/opus_writer.ts";
import { PcmWriter, WavWriter } from "./sound/pcm_writer.ts";

/**
 * Begins a file of one channel. The encoder is loaded with the first file of its format.
 *
 * @param sampleRateHz of the sound; that of the file is the same if its format supports it.
 */
export async function createSoundWriter(
  format: SoundFormat,
  sampleRateHz: number,
): Promise<SoundWriter> {
  switch (format) {
    case "mp3":
      return await createMp3Writer(sampleRateHz);
    case "opus":
      return await createOpusWriter(sampleRateHz);
    case "flac":
      return await createFlacWriter(sampleRateHz);
    case "wav":
      return new WavWriter(sampleRateHz);
    case "pcm":
      return new PcmWriter(sampleRateHz);
  }
}
