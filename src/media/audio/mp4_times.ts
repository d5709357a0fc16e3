/**
 * When a track of an MP4 file plays: its edit list and its first fragment.
 *
 * @module
 */
import type { Box } from "./mp4_boxes.ts";
import type { Placement } from "./place_sound.ts";

/** Entries of an edit list that are read. */
const MAX_EDITS = 8;

/** A track's number, by which fragments name it. */
export function readTrackId(track: Box): number {
  const header = track.find("tkhd");
  return header === undefined ? 0 : header.u32(header.u8(0) === 1 ? 20 : 12);
}

/** Where a track's sound is in the time of the whole file; `skipSeconds` only if an edit list gives it. */
export function readMp4Placement(root: Box, movie: Box, track: Box): Placement {
  const { silenceSeconds, part } = readEdits(movie, track);
  const lateSeconds = findFragmentDelay(root, movie, track);
  if (part === undefined) return { delaySeconds: silenceSeconds + lateSeconds };
  return {
    delaySeconds: silenceSeconds + Math.max(0, lateSeconds - part.startSeconds),
    skipSeconds: Math.max(0, part.startSeconds - lateSeconds),
    lengthSeconds: part.lengthSeconds,
  };
}

/** A track's edit list. */
interface Edits {
  /** Seconds of silence before the rest. */
  readonly silenceSeconds: number;
  /** What to play, without the encoder's delay and padding; `undefined` if that is all, or several parts. */
  readonly part?: { readonly startSeconds: number; readonly lengthSeconds: number };
}

function readEdits(movie: Box, track: Box): Edits {
  const list = track.find("edts", "elst");
  const movieHeader = movie.find("mvhd");
  const mediaHeader = track.find("mdia", "mdhd");
  if (list === undefined || movieHeader === undefined || mediaHeader === undefined) {
    return { silenceSeconds: 0 };
  }
  const isLong = list.u8(0) === 1;
  const edits = Array.from(
    { length: Math.min(list.u32(4), MAX_EDITS) },
    (_, i) =>
      isLong
        ? {
          duration: list.u64(8 + 20 * i),
          start: list.i32(16 + 20 * i) * 2 ** 32 + list.u32(20 + 20 * i),
        }
        : { duration: list.u32(8 + 12 * i), start: list.i32(12 + 12 * i) },
  );
  // A negative start is a time without sound.
  const parts = edits.filter(({ start }) => start >= 0);
  const silence = edits.slice(0, edits.indexOf(parts[0]!))
    .reduce((sum, { duration }) => sum + duration, 0);
  const silenceSeconds = parts.length === 0 ? 0 : silence / readTimescale(movieHeader);
  if (parts.length !== 1) return { silenceSeconds };
  const [{ duration, start }] = parts as [{ duration: number; start: number }];
  return {
    silenceSeconds,
    part: {
      startSeconds: start / readTimescale(mediaHeader),
      lengthSeconds: duration === 0 ? Infinity : duration / readTimescale(movieHeader),
    },
  };
}

/**
 * How much later a track's first fragment begins than that of any track. What begins with a recording that has run for
 * hours counts from there.
 */
function findFragmentDelay(root: Box, movie: Box, track: Box): number {
  const timescales = new Map<number, number>();
  for (const each of movie.children()) {
    const header = each.type === "trak" ? each.find("mdia", "mdhd") : undefined;
    if (header !== undefined) timescales.set(readTrackId(each), readTimescale(header));
  }
  const starts = new Map<number, number>();
  for (const box of root.children()) {
    if (box.type !== "moof" || box.isCut) continue;
    for (const fragment of box.children()) {
      const trackId = fragment.type === "traf" ? fragment.find("tfhd")?.u32(4) : undefined;
      const time = fragment.find("tfdt");
      if (trackId === undefined || time === undefined || starts.has(trackId)) continue;
      const start = time.u8(0) === 1 ? time.u64(4) : time.u32(4);
      starts.set(trackId, start / (timescales.get(trackId) ?? 1));
    }
    if (starts.size === timescales.size) break;
  }
  const start = starts.get(readTrackId(track));
  return start === undefined ? 0 : start - Math.min(...starts.values());
}

function readTimescale(header: Box): number {
  return Math.max(1, header.u32(header.u8(0) === 1 ? 20 : 12));
}
