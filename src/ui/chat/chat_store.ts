/**
 * The actions on conversations: opening, asking, answering, changing, deleting and restoring. An answer goes on while
 * another conversation is open.
 *
 * @module
 */
import {
  type ChatState,
  findPathEnd,
  findPathTo,
  findShownPath,
  followOtherTabs,
  makeInitialState,
  Observed,
} from "./chat_state.ts";
import { AnswerWriter } from "./answer_writer.ts";
import * as database from "./chat_database.ts";
import {
  type Conversation,
  type Draft,
  makeTitle,
  newConversation,
  newTurn,
  putTurn,
  type Turn,
} from "./conversation.ts";
import type { Export } from "./conversation_formats.ts";
import { loadDefaultSettings } from "./chat_settings.tsx";
import type { Voice } from "./voice.tsx";
import { createTools } from "./tool_calls.tsx";

export class ChatStore {
  /** Id of the model that answers. */
  model = "";
  /** Speech models behind the same address. */
  voice: Voice = {};
  /** Tools that the model may call besides the functions in the settings. */
  readonly tools = createTools();
  /** The state to show. */
  readonly observed = new Observed(makeInitialState());
  readonly #answers = new AnswerWriter({
    show: (turn) => this.#showAnswer(turn),
    end: (turn, failure) => this.#endAnswer(turn, failure),
    fail: (error) => this.#setFailure(this.#state.open.id, error.message),
  });

  get #state(): ChatState {
    return this.observed.value;
  }

  /** Loads the stored conversations, opens the one with this id, and follows what other tabs write. */
  async load(id: string): Promise<void> {
    this.#set({ open: newConversation(id) });
    await this.#attempt(async () => {
      await database.finishChanges();
      await database.purgeDeleted();
      const drafts = await database.loadDrafts();
      this.#set({ drafts: new Map(drafts.map((draft) => [draft.conversationId, draft])) });
      await this.#reloadList();
      followOtherTabs({
        onChange: (changed) =>
          this.#attempt(async () => {
            await this.#reloadList();
            if (changed === this.#state.open.id) await this.#reloadTurns();
          }),
        onWriting: (writtenElsewhere) => this.#set({ writtenElsewhere }),
      });
    });
    await this.open(this.#state.open.id);
    this.#set({ isLoaded: true });
  }

  /** Opens the conversation with this id, or a new one if none is stored. */
  async open(id: string): Promise<void> {
    const stored = this.#state.conversations.find((each) => each.id === id);
    const open = stored ?? newConversation(id);
    this.#set({ open, turns: [], deletedTurn: undefined });
    await this.#attempt(() => this.#reloadTurns());
  }

  /** Sends a question after the turn `parentId`; by default, after the last turn that no other tab is adding to. */
  async ask(
    { text, images = [], files = [] }: Pick<Turn, "text" | "images" | "files">,
    parentId: string | null = findPathEnd(this.observed.value),
  ): Promise<void> {
    const message = {
      role: "user" as const,
      text,
      ...(images.length > 0 && { images }),
      ...(files.length > 0 && { files }),
    };
    const turn = newTurn(message, { conversationId: this.#state.open.id, parentId });
    await this.answer(this.#addTurns([turn]));
  }

  /** Adds the results of tool calls as consecutive turns, and lets the model continue. */
  async addResults(results: readonly Pick<Turn, "text" | "toolCallId">[]): Promise<void> {
    const { id: conversationId } = this.#state.open;
    let parentId = findShownPath(this.#state).at(-1)!.id;
    const turns = results.map((result) => {
      const turn = newTurn({ ...result, role: "tool" }, { conversationId, parentId });
      parentId = turn.id;
      return turn;
    });
    await this.answer(this.#addTurns(turns));
  }

  /** Lets the model answer the turn with this id. Earlier answers to it are kept as alternatives. */
  async answer(id: string): Promise<void> {
    // From now on, the newest answer to this turn is shown.
    if (this.#state.open.headId !== id) this.show(id);
    const { id: conversationId } = this.#state.open;
    const turn = newTurn({ role: "assistant", text: "" }, { conversationId, parentId: id });
    await this.#write(turn, { messages: findPathTo(this.#state, id), continuesLast: false });
  }

  /** Lets the model continue an answer. */
  async continueAnswer(turn: Turn): Promise<void> {
    const { note: _note, error: _error, isUnfinished: _isUnfinished, ...begun } = turn;
    await this.#write(begun, { messages: findPathTo(this.#state, turn.id), continuesLast: true });
  }

  /** Adds an answer edited by the user as an alternative to the model's. */
  editAnswer(turn: Turn, text: string): void {
    const { conversationId, parentId } = turn;
    const { reasoning: _reasoning, tokens: _tokens, figures: _figures, error: _error, ...kept } =
      turn;
    this.#addTurns([newTurn({ ...kept, text, note: "Edited." }, { conversationId, parentId })]);
  }

  /** Stops the answer in the open conversation. */
  stop(): void {
    this.#answers.stop(this.#state.open.id);
  }

  /** Shows the branch through the turn with this id. */
  show(id: string): void {
    const { open } = this.#state;
    this.#set({ open: { ...open, headId: id } });
    this.#keep(open, (stored) => ({ ...stored, headId: id }));
  }

  /** Deletes a turn and all turns that follow it. */
  deleteTurn(turn: Turn): void {
    if (findShownPath(this.#state).some(({ id }) => id === turn.id)) this.stop();
    const deleted = { ...turn, deletedMs: Date.now() };
    this.#putTurn(deleted);
    this.#set({ deletedTurn: deleted });
    this.#setFailure(turn.conversationId, undefined);
    this.#attempt(() => database.saveTurn(deleted));
  }

  /** Undoes {@linkcode deleteTurn}. */
  restoreTurn({ deletedMs: _, ...turn }: Turn): void {
    this.#putTurn(turn);
    this.#set({ deletedTurn: undefined });
    this.show(turn.id);
    this.#attempt(() => database.saveTurn(turn));
  }

  /** Changes fields of a conversation that the user sets. */
  change(
    conversation: Conversation,
    fields: Pick<Partial<Conversation>, "title" | "isRenamed" | "settings">,
  ): void {
    this.#keep(conversation, (stored) => ({ ...stored, ...fields }));
  }

  /** Deletes a conversation, and stops its answer. */
  deleteConversation(conversation: Conversation): void {
    this.#answers.stop(conversation.id);
    this.#setFailure(conversation.id, undefined);
    this.#keep(conversation, (stored) => ({ ...stored, deletedMs: Date.now() }));
  }

  /** Undoes {@linkcode deleteConversation}. */
  restoreConversation(conversation: Conversation): void {
    this.#keep(conversation, ({ deletedMs: _, ...stored }) => stored);
  }

  /** Collects all conversations that are not deleted, and all turns. */
  async export(): Promise<Export> {
    const conversations = this.#state.conversations.filter(({ deletedMs }) => !deletedMs);
    return { conversations, turns: await database.loadAllTurns() };
  }

  /** Adds conversations and turns that are not stored yet. */
  async import({ conversations, turns }: Export): Promise<void> {
    await database.addMissing(conversations, turns);
    await this.#reloadList();
    await this.#reloadTurns();
  }

  /** Stores a message that has not been sent yet. */
  saveDraft(draft: Draft): void {
    this.#set({ drafts: new Map(this.#state.drafts).set(draft.conversationId, draft) });
    this.#attempt(() => database.saveDraft(draft));
  }

  /** The answer being written in the open conversation. */
  get liveAnswer(): Turn | undefined {
    return this.#answers.find(this.#state.open.id);
  }

  /** Adds consecutive turns to the open conversation and shows them. @returns the id of the last one. */
  #addTurns(added: readonly Turn[]): string {
    const { open } = this.#state;
    const headId = added.at(-1)!.id;
    for (const turn of added) this.#putTurn(turn);
    const title = makeTitle(findPathTo(this.#state, headId));
    this.#set({ open: { ...open, headId }, deletedTurn: undefined });
    this.#keep(open, ({ deletedMs: _, ...stored }) => ({
      ...stored,
      headId,
      updatedMs: Date.now(),
      title: stored.isRenamed ? stored.title : title,
    }), added);
    return headId;
  }

  async #write(
    begun: Turn,
    options: { readonly messages: readonly Turn[]; readonly continuesLast: boolean },
  ): Promise<void> {
    const { open } = this.#state;
    this.#setFailure(open.id, undefined);
    this.#set({ open: { ...open, headId: begun.id }, deletedTurn: undefined });
    const settings = open.settings ?? loadDefaultSettings();
    await this.#answers.write(begun, this.model, {
      ...options,
      settings,
      tools: this.tools.servers.definitions(),
    });
  }

  #showAnswer(turn: Turn): void {
    this.#putTurn(turn);
    this.#set({ answering: this.#answers.conversationIds });
  }

  /** Stores an answer that has ended. An empty answer is not stored; the error is shown instead. */
  #endAnswer(turn: Turn, failure: string | undefined): void {
    const { conversationId: id, parentId } = turn;
    const { turns, open, conversations } = this.#state;
    if (turn.text !== "" || turn.toolCalls || turn.reasoning) {
      this.#putTurn(turn);
      const conversation = open.id === id ? open : conversations.find((each) => each.id === id)!;
      this.#keep(conversation, (stored) => ({
        ...stored,
        // The user may have moved to another branch in the meantime.
        headId: stored.headId === parentId ? turn.id : stored.headId,
        updatedMs: Date.now(),
      }), [turn]);
    } else {
      this.#setFailure(id, failure);
      if (open.id === id) {
        const headId = open.headId === turn.id ? parentId : open.headId;
        this.#set({
          turns: turns.filter((each) => each.id !== turn.id),
          open: { ...open, headId },
        });
      }
    }
    this.#set({ answering: this.#answers.conversationIds });
  }

  #putTurn(turn: Turn): void {
    if (turn.conversationId !== this.#state.open.id) return;
    this.#set({ turns: putTurn(this.#state.turns, turn) });
  }

  /** Changes a conversation in the page's state and in the database, and stores these turns of it. */
  #keep(conversation: Conversation, change: database.Change, turns: readonly Turn[] = []): void {
    const { conversations, open } = this.#state;
    const listed = conversations.find(({ id }) => id === conversation.id) ?? conversation;
    const changed = change(listed);
    const others = conversations.filter(({ id }) => id !== conversation.id);
    this.#set({
      conversations: [changed, ...others].sort((a, b) => b.updatedMs - a.updatedMs),
      ...(open.id === changed.id && { open: { ...changed, headId: open.headId } }),
    });
    for (const turn of turns) this.#attempt(() => database.saveTurn(turn));
    this.#attempt(() => database.changeConversation(conversation, change));
  }

  async #reloadList(): Promise<void> {
    const conversations = await database.loadConversations();
    const { open } = this.#state;
    const stored = conversations.find(({ id }) => id === open.id);
    // Keeps the branch that is open in this tab: the user may have chosen another one in another tab.
    this.#set({ conversations, ...(stored && { open: { ...stored, headId: open.headId } }) });
  }

  async #reloadTurns(): Promise<void> {
    const { open: { id } } = this.#state;
    const turns = await database.loadTurns(id);
    if (this.#state.open.id !== id) return;
    const live = this.#answers.find(id);
    this.#set({ turns: live ? putTurn(turns, live) : turns });
  }

  #setFailure(id: string, message: string | undefined): void {
    const failures = new Map(this.#state.failures);
    if (message === undefined) failures.delete(id);
    else failures.set(id, message);
    this.#set({ failures });
  }

  /** Runs an action; if it fails, the error is shown in the open conversation. */
  async #attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#setFailure(this.#state.open.id, (error as Error).message);
    }
  }

  #set(change: Partial<ChatState>): void {
    this.observed.value = { ...this.#state, ...change };
  }
}
