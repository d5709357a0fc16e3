/**
 * A text in Markdown, which may still be growing.
 *
 * @module
 */
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { MarkdownView } from "./markdown_view.ts";

export function Markdown({ text, isComplete }: { text: string; isComplete: boolean }): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const view = useRef<MarkdownView | undefined>(undefined);
  const pending = useRef<number | undefined>(undefined);
  const restUntilMs = useRef(0);
  useLayoutEffect(() => {
    const update = () => {
      view.current ??= new MarkdownView(root.current!);
      const startedMs = performance.now();
      view.current.update(text, isComplete);
      // Rendering a long block again may take at most a quarter of the time.
      const endedMs = performance.now();
      restUntilMs.current = endedMs + 3 * (endedMs - startedMs);
    };
    const restMs = isComplete ? 0 : restUntilMs.current - performance.now();
    if (restMs <= 0) update();
    else pending.current = setTimeout(update, restMs);
    return () => clearTimeout(pending.current);
  }, [text, isComplete]);
  return <div class="markdown" ref={root} />;
}
