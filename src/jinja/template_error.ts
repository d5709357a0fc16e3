/** An error of a template. Its message is the one of Jinja2 or Python. */
export class TemplateError extends Error {
  override readonly name = "TemplateError";
  /** The name of Python's exception; some filters catch certain exceptions. */
  readonly type: string;

  constructor(message: string, type = "TemplateError") {
    super(message);
    this.type = type;
  }
}

/** Throws a Python exception. */
export function raise(type: string, message: string): never {
  throw new TemplateError(message, type);
}

/** Whether an error is one of these Python exceptions. */
export function isRaised(error: unknown, ...types: readonly string[]): boolean {
  return error instanceof TemplateError && types.includes(error.type);
}
