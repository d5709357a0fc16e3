/** An error of a template, its message as Jinja2 or Python would give it. */
export class TemplateError extends Error {
  override readonly name = "TemplateError";
  /** The name of Python's exception: filters recover from some of them. */
  readonly type: string;

  constructor(message: string, type = "TemplateError") {
    super(message);
    this.type = type;
  }
}

/** Throws an exception of Python's. */
export function raise(type: string, message: string): never {
  throw new TemplateError(message, type);
}

/** Whether an error is one of these exceptions of Python's. */
export function isRaised(error: unknown, ...types: readonly string[]): boolean {
  return error instanceof TemplateError && types.includes(error.type);
}
