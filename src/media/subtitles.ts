/**
 * Writes timed text as subtitle files: SubRip and WebVTT.
 *
 * @see https://www.w3.org/TR/webvtt1/
 * @module
 */

/** A line of text, and when it is spoken. */
interface Cue {
  readonly startSeconds: number;
  readonly endSeconds: number;
  readonly text: string;
}

/** Writes a SubRip file. */
export function formatSrt(cues: readonly Cue[]): string {
  return cues.map((cue, index) => `${index + 1}\n${formatCue(cue, ",")}\n\n`).join("");
}

/** Writes a WebVTT file. */
export function formatVtt(cues: readonly Cue[]): string {
  return ["WEBVTT\n\n", ...cues.map((cue) => `${formatCue(cue, ".", true)}\n\n`)].join("");
}

function formatCue(
  { startSeconds, endSeconds, text }: Cue,
  point: string,
  escapes = false,
): string {
  // A cue must contain neither a blank line nor an arrow.
  const line = text.trim().replaceAll(/\s*\n\s*/g, " ").replaceAll("-->", "->");
  const shown = escapes ? line.replaceAll("&", "&amp;").replaceAll("<", "&lt;") : line;
  return `${formatTime(startSeconds, point)} --> ${formatTime(endSeconds, point)}\n${shown}`;
}

function formatTime(seconds: number, point: string): string {
  const all = Math.round(seconds * 1000);
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  const milliseconds = String(all % 1000).padStart(3, "0");
  return `${two(all / 3_600_000)}:${two(all / 60_000 % 60)}:${
    two(all / 1000 % 60)
  }${point}${milliseconds}`;
}
