/**
 * The turns of a conversation that are shown. Finished turns are not rendered again while another one streams.
 *
 * @module
 */
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ChatState } from "./chat_state.ts";
import type { ChatStore } from "./chat_store.ts";
import { MessageItem } from "./message_item.tsx";
import { listChildren, type Turn } from "./turns.ts";

/** Within this distance of the end, the list scrolls along with new text. */
const NEAR_END_PIXELS = 80;

export function MessageList({ path, state: { turns, writtenElsewhere }, liveId, store, greeting }: {
  path: readonly Turn[];
  state: ChatState;
  /** Id of the answer that is being written. */
  liveId: string | undefined;
  store: ChatStore;
  greeting: JSX.Element;
}): JSX.Element {
  const list = useRef<HTMLOListElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (isAtEnd.current) list.current?.scrollTo({ top: list.current.scrollHeight });
  }, [path]);
  return (
    <ol
      class="messages"
      ref={list}
      tabIndex={0}
      aria-label="Conversation"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_END_PIXELS;
      }}
    >
      {path.length === 0 && <li class="greeting">{greeting}</li>}
      {path.map((turn, index) => {
        const siblings = listChildren(turns, turn.parentId).map(({ id }) => id);
        return (
          <MessageItem
            key={turn.id}
            turn={turn}
            siblings={siblings.join(" ")}
            isLast={index === path.length - 1}
            isStreaming={turn.id === liveId}
            isElsewhere={writtenElsewhere.has(turn.parentId ?? "")}
            store={store}
          />
        );
      })}
    </ol>
  );
}
