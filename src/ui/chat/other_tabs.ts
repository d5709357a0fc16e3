/**
 * Lets tabs of this page tell each other which conversations they changed, and which answers they are writing.
 *
 * @module
 */
import { newId } from "./turns.ts";

/** A tab that is writing announces it this often, since a tab that is closed cannot announce the end. */
const SAY_EVERY_MS = 1000;
const BELIEVED_MS = 3500;

type News =
  | { readonly changed: string }
  | { readonly tab: string; readonly writing: readonly string[] };

const channel = new BroadcastChannel("hearth.conversations");
const ownTab = newId();

function say(news: News): void {
  channel.postMessage(news);
}

/** Tells the other tabs that a conversation or turns of it were stored. */
export function announceChange(conversationId: string): void {
  say({ changed: conversationId });
}

/** The answers that this tab is writing, by the ids of the turns that they follow. */
export class OwnWriting {
  #ids: readonly string[] = [];
  #timer: number | undefined;

  /** Announces these ids to the other tabs, until others are set. */
  set(ids: readonly string[]): void {
    clearInterval(this.#timer);
    const hadAny = this.#ids.length > 0;
    this.#ids = ids;
    if (ids.length === 0 && !hadAny) return;
    const sayWriting = () => say({ tab: ownTab, writing: this.#ids });
    sayWriting();
    if (ids.length > 0) this.#timer = Number(setInterval(sayWriting, SAY_EVERY_MS));
  }
}

/**
 * Listens to other tabs.
 *
 * @param listen.onChange called with the id of each conversation that another tab has written to.
 * @param listen.onWriting called with the ids of all turns whose answers other tabs are writing, when they change.
 */
export function followOtherTabs({ onChange, onWriting }: {
  readonly onChange: (conversationId: string) => void;
  readonly onWriting: (ids: ReadonlySet<string>) => void;
}): void {
  const tabs = new Map<string, readonly string[]>();
  const timers = new Map<string, number>();
  let known = "";
  const hear = (tab: string, ids: readonly string[]) => {
    if (ids.length > 0) tabs.set(tab, ids);
    else tabs.delete(tab);
    const all = [...tabs.values()].flat();
    if (all.join() === known) return;
    known = all.join();
    onWriting(new Set(all));
  };
  channel.addEventListener("message", ({ data }: MessageEvent<News>) => {
    if ("changed" in data) return onChange(data.changed);
    clearTimeout(timers.get(data.tab));
    timers.set(data.tab, Number(setTimeout(() => hear(data.tab, []), BELIEVED_MS)));
    hear(data.tab, data.writing);
  });
}
