/**
 * Which turns of a conversation that is too long are left out.
 *
 * @module
 */
import type { InputItem } from "../../../wire/responses_request.ts";

/** No prose has tokens of so many characters on average. */
const MAX_CHARS_PER_TOKEN = 32;

/**
 * Item counts to leave out from the beginning, one try after the other, the last with only the last turn left. Whole
 * turns are left out, so that no tool result is left without its call. What cannot fit by its length is not tried.
 * Then 1, 2, 4 … more turns go while most are left, then half of the rest: each try reads all that is left.
 *
 * @param contextLength in tokens; no length is too long if absent.
 */
export function* droppedTurns(
  items: readonly InputItem[],
  contextLength = Infinity,
): Generator<number> {
  const starts = items.flatMap((item, index) => isFromUser(item) ? [index] : []);
  const most = Math.max(0, starts.length - 1);
  const first = Math.min(most, countTooLong(items, { starts, contextLength }));
  for (let more = 0;; more = chooseNext(more, most - first)) {
    const dropped = first + more;
    yield dropped > 0 ? starts[dropped]! : 0;
    if (dropped >= most) return;
  }
}

function chooseNext(more: number, most: number): number {
  if (more < most / 2) return Math.min(most, Math.max(1, 2 * more));
  return more + Math.ceil((most - more) / 2);
}

/** Turns that are too long together with all that follows them. */
function countTooLong(
  items: readonly InputItem[],
  { starts, contextLength }: {
    readonly starts: readonly number[];
    readonly contextLength: number;
  },
): number {
  let room = contextLength * MAX_CHARS_PER_TOKEN;
  let start = items.length;
  while (start > 0 && (room -= numChars(items[start - 1]!)) >= 0) start--;
  return starts.filter((each) => each < start).length;
}

/** Characters of its text. */
function numChars(item: InputItem): number {
  switch (item.type) {
    case "message":
      return countChars(item.content);
    case "function_call_output":
      return countChars(item.output);
    case "function_call":
      return item.arguments.length;
    default:
      return 0;
  }
}

function countChars(content: string | readonly object[]): number {
  if (typeof content === "string") return content.length;
  return content.reduce(
    (sum, part) => sum + ("text" in part ? String(part.text).length : 0),
    0,
  );
}

function isFromUser(item: InputItem): boolean {
  return item.type === "message" && item.role === "user";
}
