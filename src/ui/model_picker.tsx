/**
 * The choice among several models behind one address.
 *
 * @module
 */
import type { JSX } from "preact";
import type { ListedModel } from "./server.ts";

const CHOSEN_KEY = "hearth.model";

/** The model to begin with: the one that was chosen last, else one that chats, loaded ones first. */
export function chooseModel(models: readonly ListedModel[]): ListedModel | undefined {
  const last = localStorage.getItem(CHOSEN_KEY);
  const rank = ({ id, kind, status }: ListedModel) =>
    (id === last ? 4 : 0) + (kind === "text" || kind === "vision" ? 2 : 0) +
    (status.value === "loaded" ? 1 : 0);
  return models.toSorted((a, b) => rank(b) - rank(a))[0];
}

/** The page begins with this model from now on. */
export function rememberModel(id: string): void {
  localStorage.setItem(CHOSEN_KEY, id);
}

export function ModelPicker({ models, chosen, onModel }: {
  models: readonly ListedModel[];
  chosen: string | undefined;
  onModel: (id: string) => void;
}): JSX.Element {
  return (
    <select
      aria-label="Model"
      value={chosen ?? ""}
      onChange={(event) => onModel(event.currentTarget.value)}
    >
      {chosen === undefined && <option value="" disabled>Choose another model</option>}
      {models.map(({ id, kind, status }) => (
        <option key={id} value={id}>
          {id}
          {kind !== undefined && ` (${kind})`}
          {status.failed && ": did not load"}
        </option>
      ))}
    </select>
  );
}
