"use strict";
// Two runs with their zones one below the other: each phase of the first depth begins at the same
// place in both, and takes as much room as the longer of the two. Nothing here touches the page.

/** Where the zones begin that both runs have in the same order: a time of each. */
function commonZones(runs) {
  const begins = runs.map((run) => {
    const first = new Map();
    for (const [text, depth, from] of run.spans) {
      if (depth === 1 && !first.has(text)) first.set(text, from);
    }
    return first;
  });
  const zones = [];
  let last = [0, 0];
  for (const [text, from] of begins[0]) {
    const both = [from, begins[1]?.get(text)];
    if (both[1] === undefined || both.some((us, which) => us < last[which])) continue;
    if (both.every((us, which) => us === last[which])) continue;
    zones.push(both);
    last = both;
  }
  return zones;
}

/** Whether there is anything to be aligned. */
function canAlign(model) {
  return model.runs.length > 1 && commonZones(model.runs).length > 0;
}

/** Aligns the zones, or shows both runs from their own begins again. */
function align(model, isAligned) {
  model.places = undefined;
  model.total = Math.max(1, ...model.runs.map((run) => run.total));
  if (isAligned) placeZones(model);
  for (const [which, run] of model.runs.entries()) {
    run.at = isAligned ? placer(model.zones.map((zone) => zone[which]), model.places) : (us) => us;
    run.shown = isAligned ? shownBars(run) : run.bars;
  }
}

/** Where each zone begins on the common line of time; what is before the first is one too. */
function placeZones(model) {
  model.zones = [[0, 0], ...commonZones(model.runs)];
  model.places = [0];
  model.zones.forEach((zone, at) => {
    const next = model.zones[at + 1] ?? model.runs.map((run) => run.total);
    const longest = Math.max(0, ...zone.map((from, which) => next[which] - from));
    model.places.push(model.places[at] + longest);
  });
  model.total = Math.max(1, model.places.pop());
}

/** From a time of a run to its place; what is before the begin stays before it. */
function placer(zones, places) {
  return (us) => {
    let at = zones.length - 1;
    while (at > 0 && zones[at] > us) at--;
    return places[at] + us - zones[at];
  };
}

function shownBars({ bars, at }) {
  return { queued: bars.queued.map(at), start: bars.start.map(at), end: bars.end.map(at) };
}
