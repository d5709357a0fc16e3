/**
 * Subtitles of what was transcribed.
 *
 * @module
 */

/** Text with its times in seconds. */
export interface Span {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** SubRip. */
export function toSrt(spans: readonly Span[]): string {
  return spans.map(({ start, end, text }, index) =>
    `${index + 1}\n${stamp(start, ",")} --> ${stamp(end, ",")}\n${text.trim()}\n`
  ).join("\n");
}

/** WebVTT. */
export function toVtt(spans: readonly Span[]): string {
  const cues = spans.map(({ start, end, text }) =>
    `${stamp(start, ".")} --> ${stamp(end, ".")}\n${text.trim().replaceAll("-->", "→")}\n`
  );
  return `WEBVTT\n\n${cues.join("\n")}`;
}

function stamp(seconds: number, comma: string): string {
  const ms = Math.round(seconds * 1000);
  const pad = (value: number, digits = 2) => String(Math.floor(value)).padStart(digits, "0");
  return `${pad(ms / 3_600_000)}:${pad(ms / 60_000 % 60)}:${pad(ms / 1000 % 60)}${comma}${
    pad(ms % 1000, 3)
  }`;
}
