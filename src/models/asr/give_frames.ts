/**
 * Lengths of words that a model puts into one frame. Pure.
 *
 * @module
 */

/** When a word is spoken, in seconds. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * The spans with at least a frame each, in order: tokens may share a frame, and a word of no length cannot be shown or
 * played. Words that have no room in their segment share it equally.
 */
export function giveFrames(
  spans: readonly Span[],
  { startSeconds, endSeconds, frameSeconds }: {
    readonly startSeconds: number;
    readonly endSeconds: number;
    readonly frameSeconds: number;
  },
): Span[] {
  const isLong = ({ start, end }: Span) => end > start;
  if (spans.every(isLong)) return [...spans];
  const least = Math.min(frameSeconds, (endSeconds - startSeconds) / spans.length);
  const given: Span[] = [];
  for (const { start, end } of spans) {
    const from = Math.max(start, given.at(-1)?.end ?? startSeconds);
    given.push({ start: from, end: Math.max(end, from + least) });
  }
  // What went beyond the end moves the words before it back.
  for (let i = given.length - 1, limit = endSeconds; i >= 0 && given[i]!.end > limit; i--) {
    const start = Math.max(startSeconds, Math.min(given[i]!.start, limit - least));
    given[i] = { start, end: limit };
    limit = start;
  }
  return given;
}
