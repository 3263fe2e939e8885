/** Read and verify a parameter set; whatever is wrong with it is a `ParameterSetError`. */

import { decompress } from "fzstd";
import { parquetMetadata, parquetRead, parquetSchema } from "hyparquet";
import type { AsyncBuffer, FileMetaData } from "hyparquet";
import { EFFECTS, InputError, ParameterSet, ParameterSetError, compareTexts } from "./set.js";
import type { Description, Effect, EffectName, Row } from "./set.js";

/** A directory, an address, or how to get the bytes of a file by its name. */
export type Source = string | URL | ((name: string) => Promise<ArrayBuffer>);

export interface Options {
  /** Refuse a set that states another deployment. */
  deployment?: string;
}

const MAX_ROWS = 50_000_000;
const MAX_JSON = 16 << 20;
const STATED = /("params_digest": ")[0-9a-f]{64}"/g;
const REQUIRED = ["method", "link", "logit_mean", "effects", "counts", "warnings", "deployment", "window",
  "backbone_version", "input_digest", "config_digest", "code_version", "golden_digest", "params_digest"];

type Values = Record<string, any>;

/** Read a set, verify its digests and recompute its golden vectors. */
export async function load(source: Source, options: Options = {}): Promise<ParameterSet> {
  try {
    return await verified(files(source), options);
  } catch (error) {
    if (error instanceof ParameterSetError) throw error;
    throw new ParameterSetError(`the set cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function verified(bytesOf: (name: string) => Promise<ArrayBuffer>, options: Options): Promise<ParameterSet> {
  const text = textOf(await bytesOf("params.json"), "params.json");
  const params = parse(text) as Values;
  check(params?.["schema_version"] === 1, `schema_version is ${JSON.stringify(params?.["schema_version"])}; this reader supports 1`);
  for (const key of REQUIRED) check(key in params, `params.json has no ${key}`);
  check(text.match(STATED)?.length === 1, "params.json states no params_digest, or more than one");
  const unsigned = new TextEncoder().encode(text.replace(STATED, `$1${"0".repeat(64)}"`));
  check((await digest(unsigned.buffer)) === params["params_digest"], "params.json was changed after it was written");
  const stated = params["deployment"];
  check(
    options.deployment === undefined || stated === null || stated === options.deployment,
    `the set is one of the deployment ${stated}; expected ${options.deployment}`,
  );
  checkLink(params);
  const effects: Partial<Record<EffectName, Effect>> = {};
  for (const [name, entry] of Object.entries(params["effects"] as Values)) {
    check((EFFECTS as string[]).includes(name), `an effect ${name}; expected ${EFFECTS.join(", ")}`);
    effects[name as EffectName] = await readEffect(name, entry, bytesOf);
  }
  if (params["cold_link"] !== undefined) {
    check(
      params["link"].kind === "affine" && effects.item?.timeEdges === null,
      "a line for unknown items, but no line of known ones",
    );
  }
  const set = new ParameterSet(params as unknown as Description, effects);
  const golden = await bytesOf("golden.json");
  check((await digest(golden)) === params["golden_digest"], "golden.json was changed, or belongs to another set");
  checkGolden(set, (parse(textOf(golden, "golden.json")) as Values)["vectors"]);
  return set;
}

// --- params.json ---------------------------------------------------------------------------------------

function checkLink(params: Values): void {
  const { link, cold_link: cold } = params;
  const numbers: Record<string, string[]> = { affine: ["a", "b0"], affine_in_time: ["a", "b0", "c", "time_mean", "time_sd"] };
  const lists: Record<string, string[]> = { isotonic: ["x", "y"], histogram: ["edges", "values"] };
  check(link?.kind in numbers || link?.kind in lists, `a link of unknown kind ${link?.kind}`);
  check(isNumber(params["logit_mean"]), "logit_mean is no number");
  for (const field of numbers[link.kind] ?? []) check(isNumber(link[field]), `the link's ${field} is no number`);
  const [x, y] = (lists[link.kind] ?? []).map((field) => link[field]);
  if (link.kind in lists) {
    check(isNumbers(x) && isNumbers(y) && y.length > 0, "the link's lists are no numbers");
    check(x.length === y.length + (link.kind === "histogram" ? 1 : 0), "the link's lists do not go together");
    check(ascends(x, link.kind === "histogram"), "the link's knots or edges do not ascend");
  }
  if (cold !== undefined) {
    check(cold?.kind === "affine" && isNumber(cold.a) && isNumber(cold.b0), "cold_link is no line");
  }
}

function check(right: unknown, otherwise: string): asserts right {
  if (!right) throw new ParameterSetError(otherwise);
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function isNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every(isNumber);
}

function ascends(values: number[], strictly: boolean): boolean {
  return values.every((value, k) => k === 0 || value > values[k - 1]! || (!strictly && value === values[k - 1]));
}

function isCount(value: unknown, least: number, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}

// --- tables of effects ---------------------------------------------------------------------------------

async function readEffect(name: string, entry: Values, bytesOf: (name: string) => Promise<ArrayBuffer>): Promise<Effect> {
  const file = `${name}.parquet`;
  const { rows, columns, time_edges: edges } = entry;
  check(entry["file"] === file && isCount(rows, 0, MAX_ROWS) && isCount(entry["bytes"], 1, Infinity),
    `${rows} rows and ${entry["bytes"]} bytes in ${entry["file"]}; expected ${file} with at most ${MAX_ROWS} rows`);
  const bytes = await bytesOf(file);
  check((await digest(bytes)) === entry["digest"], `${file} was changed, or belongs to another set`);
  check(bytes.byteLength === entry["bytes"], `${file} has ${bytes.byteLength} bytes; params.json says ${entry["bytes"]}`);
  const metadata = parquetMetadata(bytes);
  const kinds = Object.fromEntries(parquetSchema(metadata).children.map(({ element }) => [element.name, element]));
  check(Number(metadata.num_rows) === rows && JSON.stringify(Object.keys(kinds)) === JSON.stringify(columns),
    `${file} has ${metadata.num_rows} rows of ${Object.keys(kinds)}; params.json says ${rows} of ${columns}`);
  const id = kinds["id"];
  const text = id?.type === "BYTE_ARRAY" && (id.converted_type === "UTF8" || id.logical_type?.type === "STRING");
  const integer = id?.type === "INT64" && id.converted_type === undefined && (id.logical_type?.type ?? "INTEGER") === "INTEGER";
  check(text || integer, `${file} has no column id of texts or 64-bit integers`);
  check(edges === null || (isNumbers(edges) && edges.length > 1 && ascends(edges, true)), `time_edges of ${file} do not ascend`);
  const bins = edges === null ? 1 : edges.length - 1;
  const read = (column: string) => readColumn(bytes, metadata, column);
  if (bins > 1) {
    check("time_bin" in kinds, `${file} has no time_bin`);
    let row = 0;
    for (const part of await read("time_bin")) {
      for (let k = 0; k < part.length; k++, row++) check(Number(part[k]) === row % bins, `${file} lacks time bins`);
    }
  }
  const floats = async (column: string): Promise<Float64Array> => {
    check(kinds[column]?.type === "DOUBLE", `${file} has no column ${column} of doubles`);
    const found = new Float64Array(rows);
    let row = 0;
    for (const part of await read(column)) {
      for (let k = 0; k < part.length; k++, row++) {
        check(isNumber(part[k]), `${file} has a ${column} that is no finite number`);
        found[row] = part[k];
      }
    }
    check(row === rows, `${file} has ${row} values of ${column}; expected ${rows}`);
    return found;
  };
  const ids = idsOf(await read("id"), rows, bins, Boolean(integer), file);
  return { ids, offset: await floats("offset"), slope: "slope" in kinds ? await floats("slope") : null, timeEdges: edges };
}

/** Each id once; they ascend, and each stands in as many rows as there are bins. */
function idsOf(parts: ArrayLike<any>[], rows: number, bins: number, integer: boolean, file: string): string[] | BigInt64Array {
  const count = rows / bins;
  check(Number.isInteger(count), `${file} lacks time bins`);
  const ids: any = integer ? new BigInt64Array(count) : new Array<string>(count);
  let row = 0;
  for (const part of parts) {
    for (let k = 0; k < part.length; k++, row++) {
      const id = part[k];
      check(typeof id === (integer ? "bigint" : "string"), `${file} has a row without an id`);
      const at = Math.floor(row / bins);
      if (row % bins !== 0) {
        check(ids[at] === id, `${file} lacks time bins`);
        continue;
      }
      ids[at] = id;
      if (at > 0) {
        const order = integer ? (ids[at - 1] < id ? -1 : 1) : compareTexts(ids[at - 1], id);
        check(order < 0, `${file} has the id ${String(id)} twice, or its ids do not ascend`);
      }
    }
  }
  check(row === rows, `${file} has ${row} ids; expected ${rows}`);
  return ids;
}

async function readColumn(bytes: ArrayBuffer, metadata: FileMetaData, column: string): Promise<ArrayLike<any>[]> {
  const file: AsyncBuffer = { byteLength: bytes.byteLength, slice: (start, end) => bytes.slice(start, end) };
  const parts: { rowStart: number; columnData: ArrayLike<any> }[] = [];
  const compressors = { ZSTD: (input: Uint8Array, size: number) => decompress(input, new Uint8Array(size)) };
  await parquetRead({ file, metadata, columns: [column], compressors, onChunk: (chunk) => parts.push(chunk) });
  return parts.sort((one, two) => one.rowStart - two.rowStart).map((part) => part.columnData);
}

// --- golden vectors ------------------------------------------------------------------------------------

function checkGolden(set: ParameterSet, vectors: (Row & { probability: number | null })[]): void {
  check(Array.isArray(vectors) && vectors.length >= 20, `${vectors?.length} golden vectors; expected at least 20`);
  vectors.forEach((vector, number) => {
    const found = answer(set, vector);
    const stated = vector.probability;
    const alike = found === null || stated === null ? found === stated : Math.abs(found - stated) <= 1e-9;
    check(alike, `golden vector ${number} gives ${found} instead of ${stated}`);
  });
}

function answer(set: ParameterSet, row: Row): number | null {
  try {
    return set.correct(row);
  } catch (error) {
    if (error instanceof InputError) return null;
    throw error;
  }
}

// --- bytes ---------------------------------------------------------------------------------------------

/** JSON whose ids may be integers beyond 2^53: those are read as `bigint`. */
export function parse(text: string): unknown {
  const kept = text.replace(/([{,]\s*"(?:item|group|user)_id"\s*:\s*)(-?\d{16,})(?=\s*[,}])/g, '$1{"integer":"$2"}');
  return JSON.parse(kept, (_, value) => (typeof value?.integer === "string" ? BigInt(value.integer) : value));
}

function textOf(bytes: ArrayBuffer, name: string): string {
  check(bytes.byteLength <= MAX_JSON, `${name} has ${bytes.byteLength} bytes; at most ${MAX_JSON} are read`);
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}

async function digest(bytes: ArrayBuffer): Promise<string> {
  const web = globalThis.crypto ?? (await import("node:crypto")).webcrypto;
  const found = new Uint8Array(await web.subtle.digest("SHA-256", bytes));
  return Array.from(found, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function files(source: Source): (name: string) => Promise<ArrayBuffer> {
  if (typeof source === "function") return source;
  const place = String(source).replace(/\/$/, "");
  if (/^https?:/.test(place) || globalThis.process?.versions?.node === undefined) {
    return async (name) => {
      const response = await fetch(`${place}/${name}`);
      check(response.ok, `${name} is missing: the server answers ${response.status}`);
      return response.arrayBuffer();
    };
  }
  return async (name) => {
    const { readFile } = await import("node:fs/promises");
    const path = source instanceof URL ? new URL(`${place}/${name}`) : `${place}/${name}`;
    const bytes = await readFile(path);
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
  };
}
