/**
 * The header of a WAV file: one channel, 16 bits.
 *
 * @see http://soundfile.sapp.org/doc/WaveFormat/
 * @module
 */
const HEADER_BYTES = 44;
const RIFF_SIZE_AT = 4;
const DATA_SIZE_AT = 40;
/** Placeholder for an unknown size. */
const UNKNOWN_SIZE = 0xffff_ffff;

/** A header without the length. */
export function makeWavHeader(sampleRateHz: number): Uint8Array<ArrayBuffer> {
  const header = new Uint8Array(HEADER_BYTES);
  const view = new DataView(header.buffer);
  const write = (at: number, name: string) => {
    for (let i = 0; i < name.length; i++) header[at + i] = name.charCodeAt(i);
  };
  write(0, "RIFF");
  view.setUint32(RIFF_SIZE_AT, UNKNOWN_SIZE, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, sampleRateHz, true);
  view.setUint32(28, 2 * sampleRateHz, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(DATA_SIZE_AT, UNKNOWN_SIZE, true);
  return header;
}

/**
 * Writes the length of a complete file into its header.
 *
 * @param file begins with a header of {@linkcode makeWavHeader}; changed in place.
 */
export function closeWavHeader(file: Uint8Array): void {
  const view = new DataView(file.buffer, file.byteOffset);
  view.setUint32(RIFF_SIZE_AT, file.length - 8, true);
  view.setUint32(DATA_SIZE_AT, file.length - HEADER_BYTES, true);
}
