"use strict";
// The manager's own lane: what it computes, who waits for it, and where the critical path did.

/** The lane's height; it lies below the times. */
const LANE_HEIGHT = 30;

/** How far from a mark the pointer finds it, in pixels. */
const LANE_REACH = 3;

/** Samples become stretches of time, each `[from, until, value]`, in their order. */
function decodeLane(run, bars, words) {
  const cpu = cpuShares(run);
  const queue = run.queue.flatMap(([from, depth], at) => (depth === 0 ? []
    : [[from, run.queue[at + 1]?.[0] ?? run.total, depth]]));
  const away = run.path.flatMap((bar, at) => (run.gaps[at] === 0 || isOutside(words, bars.by[bar])
    ? [] : [[bars.start[bar] - run.gaps[at], bars.start[bar], bar]]));
  const used = cpu.reduce((sum, [from, until, share]) => sum + share * (until - from), 0);
  return { cpu, queue, away, used, most: largest(queue.map(([, , depth]) => depth), 0) };
}

/**
 * Shares of one processor between samples of a sum; one that shrinks is another process's. A boot
 * begins with the process.
 */
function cpuShares(run) {
  const samples = run.subject === "boot" ? [[0, 0], ...run.cpu] : run.cpu;
  const shares = [];
  for (let at = 1; at < samples.length; at++) {
    const [from, before] = samples[at - 1];
    const [until, after] = samples[at];
    if (until <= from) continue;
    shares.push([from, until, (after >= before ? after - before : after) / (until - from)]);
  }
  return shares;
}

function percentText(share) {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/** What stands beside the lane. */
function laneLabel(run) {
  const { cpu, used, most, away } = run.lane;
  const parts = [];
  if (cpu.length > 0) parts.push(`CPU ${timeText(used)}`);
  if (most > 0) parts.push(`${countText(most)} waiting`);
  if (away.length > 0) parts.push(`held the path ${countText(away.length)}\u00d7`);
  return parts.length > 0 ? `manager: ${parts.join(", ")}` : "manager: nothing recorded";
}

/** The lane of the last run, below the times. */
function paintLane(painter, top) {
  const { context, colors, width, model } = painter;
  const run = model.runs[model.runs.length - 1];
  const bottom = top + LANE_HEIGHT;
  context.fillStyle = colors.panel;
  context.fillRect(0, top, width, LANE_HEIGHT);
  laneColumns(painter, run, run.lane.cpu, (share) => Math.min(1, share), (column, high) => {
    context.fillStyle = colors.manager;
    context.fillRect(NAME_WIDTH + column, bottom - 1 - high, 1, high);
  });
  const depth = (waiting) => Math.sqrt(waiting / run.lane.most);
  laneColumns(painter, run, run.lane.queue, depth, (column, high) => {
    context.fillStyle = colors.queue;
    context.fillRect(NAME_WIDTH + column, bottom - 1 - high, 1, 2);
  });
  for (const [from, until] of run.lane.away) {
    painter.block(painter.x(run.at(from)), painter.x(run.at(until)), top, 4, colors.bad);
  }
  context.fillStyle = colors.panel;
  context.fillRect(0, top, NAME_WIDTH, LANE_HEIGHT);
  context.fillStyle = colors.muted;
  context.fillText(fitText(context, laneLabel(run), NAME_WIDTH - 18), 12, top + LANE_HEIGHT / 2);
  context.fillStyle = colors.grid;
  context.fillRect(0, bottom - 1, width, 1);
}

/** Hands to `paint` for each pixel the most of the stretches there, as a height. */
function laneColumns(painter, run, stretches, share, paint) {
  const columns = Math.max(1, Math.round(painter.width - NAME_WIDTH));
  const highest = new Float64Array(columns);
  for (const [from, until, value] of stretches) {
    const first = Math.max(0, Math.floor(painter.x(run.at(from)) - NAME_WIDTH));
    const last = Math.min(columns - 1, Math.floor(painter.x(run.at(until)) - NAME_WIDTH));
    const high = share(value) * (LANE_HEIGHT - 6);
    for (let column = first; column <= last; column++) {
      highest[column] = Math.max(highest[column], high);
    }
  }
  highest.forEach((high, column) => { if (high > 0) paint(column, Math.max(1, high)); });
}

/** The lines of the tip over the lane. */
function laneTip(page, us) {
  const { model, painter } = page;
  const run = model.runs[model.runs.length - 1];
  const reach = LANE_REACH / painter.scale;
  const there = (stretches) => stretches.find(
    ([from, until]) => run.at(from) <= us + reach && run.at(until) >= us - reach);
  const lines = [];
  const away = there(run.lane.away);
  if (away !== undefined) {
    lines.push(`away for ${timeText(away[1] - away[0])}, until ${run.names[run.bars.row[away[2]]]} could run`);
  }
  const queue = there(run.lane.queue);
  if (queue !== undefined) {
    lines.push(`${countText(queue[2])} waiting for ${timeText(queue[1] - queue[0])} on bus or socket`);
  }
  const cpu = there(run.lane.cpu);
  if (cpu !== undefined) {
    lines.push(`CPU ${percentText(cpu[2])} of one processor from ${timeText(cpu[0])} to ${timeText(cpu[1])}`);
  }
  return lines.length === 0 ? "" : `The manager\n${lines.join("\n")}`;
}

/** What the panel tells of the lane. */
function laneFigures(page) {
  const { model } = page;
  const run = model.runs[model.runs.length - 1];
  const { cpu, queue, away, used, most } = run.lane;
  const busiest = cpu.reduce((a, b) => (b[2] > a[2] ? b : a), [0, 0, 0]);
  const longest = away.reduce((a, b) => (b[1] - b[0] > a[1] - a[0] ? b : a), [0, 0, NONE]);
  const sum = (stretches) => stretches.reduce((total, [from, until]) => total + until - from, 0);
  const rows = [
    ["CPU time", cpu.length === 0 ? "" : `${timeText(used)} (${percentText(used / Math.max(1, run.total))})`],
    ["busiest", cpu.length < 2 ? "" : `${percentText(busiest[2])} at ${timeText(busiest[0])}`],
    ["clients waited", queue.length === 0 ? "" : `${timeText(sum(queue))}, ${countText(most)} at most`],
    ["the path waited", away.length === 0 ? "" : `${timeText(sum(away))} in ${countText(away.length)}`],
  ];
  const table = pairs([...rows, ["most of it before", longest[2] === NONE ? ""
    : unitLink(run.names[run.bars.row[longest[2]]], page)]]);
  return table.rows.length === 0 ? [] : [element("h3", { text: "The manager itself" }), table];
}
