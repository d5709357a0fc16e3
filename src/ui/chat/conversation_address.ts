/**
 * Each conversation has an address: its id stands behind the page's own, as in `/#/c/3f2a…`.
 *
 * @module
 */

/** The id in the page's address. */
export function readConversationId(): string | undefined {
  return location.hash.match(/^#\/c\/([\w-]{1,64})$/)?.[1];
}

/** Makes the conversation's address the page's: a new entry of the browser's history, or in place of the last. */
export function showConversationId(id: string, { replaces = false } = {}): void {
  if (readConversationId() === id) return;
  const url = `${location.pathname}${location.search}#/c/${id}`;
  if (replaces) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
}

/** Calls `onChange` when the user goes back, forward, or to another address of the page. Returns how to stop that. */
export function followAddress(onChange: (id: string | undefined) => void): () => void {
  const listen = () => onChange(readConversationId());
  addEventListener("popstate", listen);
  addEventListener("hashchange", listen);
  return () => {
    removeEventListener("popstate", listen);
    removeEventListener("hashchange", listen);
  };
}
