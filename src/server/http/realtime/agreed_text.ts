/**
 * Text of ongoing speech by LocalAgreement-2: words on which two consecutive hypotheses agree are final. Pure.
 *
 * @see Macháček, Dabre and Bojar, "Turning Whisper into Real-Time Transcription System", 2023
 * @module
 */

const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });

/** The text of one turn. Final text is never taken back. */
export class AgreedText {
  #text = "";
  #hypothesis = "";

  /** All text that is final so far. */
  get text(): string {
    return this.#text;
  }

  /**
   * Takes the next hypothesis.
   *
   * @param hypothesis the whole text of the turn so far.
   * @returns the text that has become final. It ends with a word, because a full stop after it may disappear once the
   * speaker goes on.
   */
  push(hypothesis: string): string {
    const [before, now] = [this.#hypothesis, hypothesis].map((text) =>
      splitWords(textAfter(this.#text, text))
    );
    this.#hypothesis = hypothesis;
    let numAgreed = 0;
    while (numAgreed < now!.length && isSame(now![numAgreed], before![numAgreed])) numAgreed++;
    while (numAgreed > 0 && !now![numAgreed - 1]!.isWordLike) numAgreed--;
    return this.#add(joinWords(now!.slice(0, numAgreed)));
  }

  /** Takes the final transcript. @returns the text that follows what was final before. */
  end(transcript: string): string {
    return this.#add(textAfter(this.#text, transcript));
  }

  #add(text: string): string {
    this.#text += text;
    return text;
  }
}

/**
 * Returns the rest of a text after `beginning`. If the text begins differently, the words at its start that are nearest
 * to `beginning` by edit distance are skipped instead.
 */
function textAfter(beginning: string, text: string): string {
  if (text.startsWith(beginning)) return text.slice(beginning.length);
  const words = splitWords(text);
  const ends = [...words.keys()].filter((at) => words[at]!.isWordLike);
  const numWords = findNearestLength(listWords(splitWords(beginning)), listWords(words));
  const end = numWords === 0 ? 0 : ends[numWords - 1]! + 1;
  return joinWords(words.slice(end));
}

/** How many words at the start of `words` are nearest to `beginning`, by edit distance. */
function findNearestLength(beginning: readonly string[], words: readonly string[]): number {
  let row = [0, ...words.map((_, at) => at + 1)];
  for (const [index, word] of beginning.entries()) {
    const next = [index + 1];
    for (const [at, other] of words.entries()) {
      const replaced = row[at]! + Number(word !== other);
      next.push(Math.min(replaced, row[at + 1]! + 1, next[at]! + 1));
    }
    row = next;
  }
  const least = Math.min(...row);
  const distance = (length: number) => Math.abs(length - beginning.length);
  const nearest = [...row.keys()].filter((length) => row[length] === least);
  return nearest.reduce((best, length) => distance(length) < distance(best) ? length : best);
}

function splitWords(text: string): Intl.SegmentData[] {
  return [...segmenter.segment(text)];
}

function joinWords(words: readonly Intl.SegmentData[]): string {
  return words.map(({ segment }) => segment).join("");
}

function listWords(words: readonly Intl.SegmentData[]): string[] {
  return words.filter(({ isWordLike }) => isWordLike).map(({ segment }) => segment.toLowerCase());
}

function isSame(a: Intl.SegmentData | undefined, b: Intl.SegmentData | undefined): boolean {
  return a?.segment === b?.segment;
}
