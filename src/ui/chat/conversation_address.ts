/**
 * Gives each conversation an address: its id follows the page's own address, as in `/#/c/3f2a…`.
 *
 * @module
 */

/** The conversation id in the page's address. */
export function readConversationId(): string | undefined {
  return location.hash.match(/^#\/c\/([\w-]{1,64})$/)?.[1];
}

/**
 * Puts a conversation's address into the address bar, as a new entry of the browser's history or replacing the last
 * one.
 */
export function showConversationId(id: string, { replaces = false } = {}): void {
  if (readConversationId() === id) return;
  const url = `${location.pathname}${location.search}#/c/${id}`;
  if (replaces) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
}

/**
 * Calls `onChange` when the user goes back, forward, or to another address of the page. Returns a function that ends
 * this.
 */
export function followAddress(onChange: (id: string | undefined) => void): () => void {
  const listen = () => onChange(readConversationId());
  addEventListener("popstate", listen);
  addEventListener("hashchange", listen);
  return () => {
    removeEventListener("popstate", listen);
    removeEventListener("hashchange", listen);
  };
}
