/**
 * The lines of a page in reading order, whichever way the page lies. Pure.
 *
 * @module
 */
import { orderRows } from "./columns.ts";
import { estimateSkew, toUprightBox, type UprightBox } from "./reading_order.ts";
import { distance, type LineBox } from "./rotated_rectangle.ts";

/** Lines with a larger ratio of height to width are turned by a quarter: they are cut out as if they were read from above. */
export const STANDING_ASPECT = 1.5;

/** Whether a line is read from below or from above. */
export function isStanding({ topLeft, topRight, bottomLeft }: LineBox): boolean {
  return distance(topLeft, bottomLeft) >= STANDING_ASPECT * distance(topLeft, topRight);
}

/** Whether most of the lines of a page are. */
export function isPageStanding(boxes: readonly LineBox[]): boolean {
  return boxes.filter(isStanding).length * 2 > boxes.length;
}

/**
 * Rows from the top, lines of a row from the left, column by column where there are columns. Where most of the text is
 * turned by a quarter, rows go from right to left, as on a page that is read from above.
 */
export function orderPage(boxes: readonly LineBox[]): LineBox[][] {
  const skew = estimateSkew(boxes.filter((box) => !isStanding(box)));
  if (!isPageStanding(boxes)) {
    return orderRows(boxes, (box) => toUprightBox(box, skew));
  }
  return orderRows(boxes, (box) => turnLeft(toUprightBox(box, 0)));
}

/** A box on the page turned counterclockwise by a quarter. */
function turnLeft({ left, top, right, bottom }: UprightBox): UprightBox {
  return { left: top, right: bottom, top: -right, bottom: -left };
}

/** The same rows on a page that is upside down. */
export function turnPage<T>(rows: readonly (readonly T[])[]): T[][] {
  return rows.map((row) => row.toReversed()).reverse();
}
