/** An invalid grammar, or one that is too complex; the message is meant for the client. */
export class GrammarError extends Error {
  override readonly name = "GrammarError";
  /** Path of the fault in the request, if known. */
  readonly param: string | undefined;

  constructor(message: string, param?: string) {
    super(message);
    this.param = param;
  }
}
