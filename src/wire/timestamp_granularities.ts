/**
 * `timestamp_granularities`: whether a transcript has times of segments, of words, or of both.
 *
 * @module
 */
import { z } from "zod";
import { HearthError } from "../base/errors.ts";

const GRANULARITIES = ["word", "segment"] as const;
/** Names that clients have for the field; they send it once per value. */
const NAMES = ["timestamp_granularities[]", "timestamp_granularities"] as const;

/** The same, and with an index as some forms number them. */
const INDEXED = /^timestamp_granularities(\[\d*\])?$/;

/** What has times. */
export type Granularity = typeof GRANULARITIES[number];

const Granularities = z.array(z.enum(GRANULARITIES)).optional();

/** The form's fields. */
export const GranularityFields = {
  [NAMES[0]]: Granularities.describe(
    "What times are of, with response_format verbose_json: default segment",
  ),
  [NAMES[1]]: Granularities.describe("The same, for clients that send it without brackets"),
};

/** What a form asks for. */
interface AskedGranularities {
  /** `segment` alone where none is asked for. */
  readonly granularities: ReadonlySet<Granularity>;
  readonly warnings: readonly string[];
}

/**
 * Reads them. In any format but `verbose_json` there is no place for times, and they are passed over.
 *
 * @param fields of a form, in their order.
 * @throws {HearthError} `invalid_value` for an unknown one.
 */
export function readGranularities(
  fields: readonly (readonly [name: string, value: string])[],
  format: string,
): AskedGranularities {
  const given = fields.filter(([name]) => INDEXED.test(name)).flatMap(([name, values]) =>
    values.split(/[\s,"'[\]]+/).filter((value) => value !== "").map((value) =>
      [name, value] as const
    )
  );
  for (const [param, value] of given) {
    if ((GRANULARITIES as readonly string[]).includes(value)) continue;
    throw new HearthError(
      "invalid_value",
      `${param}: want one of ${GRANULARITIES.join(", ")}, saw ${
        JSON.stringify(value.slice(0, 40))
      } or both.`,
      { param },
    );
  }
  const [first] = given;
  if (first === undefined) return { granularities: new Set(["segment"]), warnings: [] };
  if (format !== "verbose_json") {
    const warning = `${first[0]} is passed over; use response_format verbose_json with it`;
    return { granularities: new Set(["segment"]), warnings: [warning] };
  }
  return { granularities: new Set(given.map(([, value]) => value as Granularity)), warnings: [] };
}
