/** A parameter set that was verified: from a row to a probability (docs/serving.md). */

/** A set that must not serve: changed, incomplete, unknown, or of another deployment. */
export class ParameterSetError extends Error {
  override name = "ParameterSetError";
}

/** A row that cannot be answered. */
export class InputError extends Error {
  override name = "InputError";
}

export type Id = string | number | bigint | null | undefined;
export type EffectName = "item" | "group" | "user";

/** The inputs of a row. A missing id counts as unknown. */
export interface Row {
  logit: number;
  item_id?: Id;
  group_id?: Id;
  user_id?: Id;
  /** Seconds since 1970, or the number on which the set was fitted. */
  time?: number | null;
}

export type Link =
  | { kind: "affine"; a: number; b0: number }
  | { kind: "affine_in_time"; a: number; b0: number; c: number; time_mean: number; time_sd: number }
  | { kind: "isotonic"; x: number[]; y: number[] }
  | { kind: "histogram"; edges: number[]; values: number[] };

/** The table of an effect: ids ascend, and with time edges each has a row for each bin. */
export interface Effect {
  ids: string[] | BigInt64Array;
  offset: Float64Array;
  slope: Float64Array | null;
  timeEdges: number[] | null;
}

/** What `params.json` says besides the effects' tables. */
export interface Description {
  method: string;
  deployment: string | null;
  window: { start: string; end: string } | null;
  backbone_version: string | null;
  params_digest: string;
  link: Link;
  cold_link?: { kind: "affine"; a: number; b0: number };
  logit_mean: number;
}

/** In the order in which they are added. */
export const EFFECTS: readonly EffectName[] = ["item", "group", "user"];
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

export class ParameterSet {
  private readonly parts: [EffectName, Effect][];

  /** @internal Use `load`, which verifies. */
  constructor(
    readonly description: Description,
    readonly effects: Partial<Record<EffectName, Effect>>,
  ) {
    this.parts = EFFECTS.flatMap((name) => (effects[name] ? [[name, effects[name]] as [EffectName, Effect]] : []));
  }

  get method(): string {
    return this.description.method;
  }

  /** The corrected probability of a row. */
  correct(row: Row): number {
    const { link, cold_link: cold, logit_mean: mean } = this.description;
    const logit = row.logit;
    if (typeof logit !== "number" || !Number.isFinite(logit)) {
      throw new InputError(`logit ${String(logit)} is no finite number`);
    }
    const time = timeOf(row.time);
    let added = 0;
    for (const [name, effect] of this.parts) {
      const found = position(effect.ids, row[`${name}_id`], name);
      if (found >= 0) {
        const bins = effect.timeEdges;
        const cell = bins === null ? found : found * (bins.length - 1) + (time === null ? bins.length - 2 : binOf(time, bins));
        added += effect.offset[cell]! + (effect.slope === null ? 0 : effect.slope[cell]! * (logit - mean));
      } else if (name === "item" && cold !== undefined && link.kind === "affine") {
        added += (cold.a - link.a) * logit + (cold.b0 - link.b0);
      }
    }
    switch (link.kind) {
      case "affine":
        return sigmoid(link.a * logit + link.b0 + added);
      case "affine_in_time":
        if (time === null) throw new InputError(`the row has no time, which ${this.method} needs`);
        return sigmoid(link.a * logit + (link.c * (time - link.time_mean)) / link.time_sd + link.b0 + added);
      case "isotonic":
        return interpolated(sigmoid(logit + added), link.x, link.y);
      case "histogram":
        return link.values[binOf(sigmoid(logit + added), link.edges)]!;
    }
  }

  /** Whether the set contains an id. */
  knows(name: EffectName, id: Id): boolean {
    const effect = this.effects[name];
    return effect !== undefined && position(effect.ids, id, name) >= 0;
  }
}

function sigmoid(eta: number): number {
  return 1 / (1 + Math.exp(-eta));
}

function timeOf(time: number | null | undefined): number | null {
  if (time === null || time === undefined || Number.isNaN(time)) return null;
  if (typeof time !== "number") throw new InputError(`time ${String(time)} is no number`);
  return time;
}

/** The first bin whose upper edge is not below the value, else the last. */
function binOf(value: number, edges: number[]): number {
  let low = 0;
  let high = edges.length - 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value <= edges[middle + 1]!) high = middle;
    else low = middle + 1;
  }
  return low;
}

function interpolated(q: number, x: number[], y: number[]): number {
  const last = x.length - 1;
  if (q <= x[0]!) return y[0]!;
  if (q >= x[last]!) return y[last]!;
  const k = binOf(q, x);
  return y[k]! + ((y[k + 1]! - y[k]!) / (x[k + 1]! - x[k]!)) * (q - x[k]!);
}

/** Where an id stands; −1 for an unknown one, and for none. */
function position(ids: string[] | BigInt64Array, id: Id, name: EffectName): number {
  if (id === null || id === undefined) return -1;
  if (ids instanceof BigInt64Array) {
    const wanted = integerOf(id, name);
    return search(ids.length, (k) => (ids[k]! < wanted ? -1 : ids[k]! > wanted ? 1 : 0));
  }
  if (typeof id !== "string") throw new InputError(`${name}_id ${String(id)} is a ${typeof id}; the ids of the set are texts`);
  const found = search(ids.length, (k) => compareTexts(ids[k]!, id));
  if (found < 0 && LONE_SURROGATE.test(id)) throw new InputError(`${name}_id is no text: it holds half a character`);
  return found;
}

function integerOf(id: string | number | bigint, name: EffectName): bigint {
  if (typeof id === "string" || (typeof id === "number" && !Number.isSafeInteger(id))) {
    throw new InputError(`${name}_id ${JSON.stringify(id)} is not an exact integer; the ids of the set are integers (large ones as bigint)`);
  }
  const wanted = BigInt(id);
  if (BigInt.asIntN(64, wanted) !== wanted) throw new InputError(`${name}_id ${id} does not fit 64 bits`);
  return wanted;
}

function search(length: number, compare: (k: number) => number): number {
  let low = 0;
  let high = length - 1;
  while (low <= high) {
    const middle = (low + high) >>> 1;
    const found = compare(middle);
    if (found === 0) return middle;
    if (found < 0) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** By UTF-8 bytes, which is by code points; JavaScript's own order is by UTF-16 units. */
export function compareTexts(one: string, two: string): number {
  const length = Math.min(one.length, two.length);
  for (let k = 0; k < length; k++) {
    const [a, b] = [one.charCodeAt(k), two.charCodeAt(k)];
    if (a !== b) return rank(a) - rank(b);
  }
  return one.length - two.length;
}

function rank(unit: number): number {
  return unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit;
}
