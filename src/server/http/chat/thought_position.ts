/**
 * Where a chat completion puts what the model thought.
 *
 * @module
 */
import type { ChatRequest } from "../../../wire/chat_request.ts";
import { hidesReasoning } from "../../../wire/spellings.ts";
import type { ReasoningField } from "../../../base/config.ts";

/** A field of its own, the text between two tags, or nowhere. */
export type ThoughtPosition = ReasoningField | "content" | "hidden";

/** The fields of a message, or of a delta, that hold text and thought. */
type Placed = Partial<Readonly<Record<ReasoningField | "content", string>>>;

interface Written {
  readonly text: string;
  readonly reasoning: string;
}

const OPEN = "<think>\n";
const CLOSE = "\n</think>\n\n";

/** The position that `request` asks for, by any of the names that servers have for it; `usual` if it does not ask. */
export function chooseThoughtPosition(
  request: ChatRequest,
  usual: ReasoningField,
): ThoughtPosition {
  const { include_reasoning: includes, reasoning_format: format } = request;
  if (includes === false || format === "hidden" || hidesReasoning(request)) return "hidden";
  const isText = format === "none" || format === "raw" || request.separate_reasoning === false;
  return isText ? "content" : usual;
}

/** Puts the text and the thought of a whole message into its fields. */
export function placeThought({ text, reasoning }: Written, place: ThoughtPosition): Placed {
  if (reasoning === "" || place === "hidden") return { content: text };
  if (place === "content") return { content: OPEN + reasoning + CLOSE + text };
  return { content: text, [place]: reasoning };
}

/** Puts text and thought into a message's fields, delta by delta. */
export class ThoughtParts {
  readonly #place: ThoughtPosition;
  /** Whether a tag in the text is still open. */
  #isOpen = false;

  constructor(place: ThoughtPosition) {
    this.#place = place;
  }

  /** Takes the next delta. Fields that it adds nothing to are absent. */
  next({ text, reasoning }: Written): Placed {
    if (this.#place === "content") return toContent(this.#mark(reasoning) + this.#unmark(text));
    const hasThought = reasoning !== "" && this.#place !== "hidden";
    return { ...toContent(text), ...(hasThought && { [this.#place]: reasoning }) };
  }

  /** Ends the message: returns the closing tag if the message ended in a thought. */
  end(): Placed {
    return this.#isOpen ? toContent(this.#close()) : {};
  }

  #mark(reasoning: string): string {
    if (reasoning === "" || this.#isOpen) return reasoning;
    this.#isOpen = true;
    return OPEN + reasoning;
  }

  #unmark(text: string): string {
    return text !== "" && this.#isOpen ? this.#close() + text : text;
  }

  #close(): string {
    this.#isOpen = false;
    return CLOSE;
  }
}

/**
 * Puts text into `content`. Log-probabilities of markup come without text, and clients would take an empty string for
 * the beginning of an answer.
 */
function toContent(text: string): Placed {
  return text === "" ? {} : { content: text };
}
