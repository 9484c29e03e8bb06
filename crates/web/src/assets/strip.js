// The heat strip: a cell for each container or unit, painted pixel by pixel so that 40,000 of them take a few ms.
// Each state has a shape as well as a colour, and at each size covers another part of its cell: a full one with a cross, a
// square, a corner, a low bar. Who sees no colours tells them apart by that.

export const STATES = {
  f: { word: 'failed', mark: '✖', color: '--failed' },
  t: { word: 'starting, stopping or reloading', mark: '◤', color: '--moving' },
  a: { word: 'up', mark: '■', color: '--up' },
  i: { word: 'down', mark: '▁', color: '--down' },
};

const LETTERS = Object.keys(STATES);

// Sides of a cell with its gap, in CSS pixels: the largest that keeps the strip this low.
export const SIDES = [18, 16, 14, 12, 11, 10, 9, 8, 7, 6, 5, 4];
const HEIGHT_MAX = 360;

// In a smaller cell a cross would be all that is seen.
const CROSS_MIN = 8;

/** Paints one cell into a context, without its gap. */
export function paintCell(context, letter, side, style) {
  const inner = Math.max(side - (side > 6 ? 2 : 1), 2);
  context.clearRect(0, 0, side, side);
  context.fillStyle = style.getPropertyValue(STATES[letter].color).trim();
  if (letter === 'a') {
    context.fillRect(0, 0, inner, inner);
  } else if (letter === 'i') {
    const high = Math.max(Math.round(side / 6), 1);
    context.fillRect(0, inner - high, inner, high);
  } else if (letter === 't') {
    for (let y = 0; y < inner; y += 1) context.fillRect(0, y, inner - y, 1);
  } else {
    // Without a gap, so that one among thousands is seen.
    context.fillRect(0, 0, side, side);
    if (side < CROSS_MIN) return;
    context.strokeStyle = style.getPropertyValue('--back').trim();
    context.lineWidth = Math.max(1, side / 7);
    context.beginPath();
    context.moveTo(1.5, 1.5);
    context.lineTo(side - 1.5, side - 1.5);
    context.moveTo(side - 1.5, 1.5);
    context.lineTo(1.5, side - 1.5);
    context.stroke();
  }
}

/** A small picture of a state, for the legend. */
export function sample(letter) {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 28;
  canvas.setAttribute('aria-hidden', 'true');
  const context = canvas.getContext('2d');
  context.scale(2, 2);
  paintCell(context, letter, 14, getComputedStyle(document.documentElement));
  return canvas;
}

export class Strip {
  /** `tell(index)` says what is under the cursor; `open(index)` opens it. */
  constructor(box, tell, open) {
    this.box = box;
    this.canvas = document.createElement('canvas');
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'application');
    this.canvas.setAttribute('aria-roledescription', 'heat strip');
    this.canvas.setAttribute('aria-describedby', 'strip-help');
    this.cursor = document.createElement('div');
    this.cursor.className = 'cursor';
    this.cursor.hidden = true;
    box.replaceChildren(this.canvas, this.cursor);
    this.names = [];
    this.states = [];
    this.at = 0;
    this.tell = tell;
    this.open = open;
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    this.canvas.addEventListener('focus', () => this.move(this.at));
    this.canvas.addEventListener('blur', () => { this.cursor.hidden = true; });
    this.canvas.addEventListener('mousemove', (event) => {
      const index = this.under(event);
      if (index !== null) this.tell(index, false);
    });
    this.canvas.addEventListener('click', (event) => {
      const index = this.under(event);
      if (index !== null) { this.at = index; this.open(index); }
    });
    this.resizes = new ResizeObserver(() => this.layout());
    this.resizes.observe(box);
    this.schemes = ['(prefers-color-scheme: dark)', '(forced-colors: active)'].map((query) => matchMedia(query));
    this.rescheme = () => { this.side = 0; this.layout(); };
    this.schemes.forEach((scheme) => scheme.addEventListener('change', this.rescheme));
  }

  close() {
    this.resizes.disconnect();
    this.schemes.forEach((scheme) => scheme.removeEventListener('change', this.rescheme));
  }

  /** Takes all cells. */
  show(names, states, what) {
    this.names = names;
    this.states = states;
    this.canvas.setAttribute('aria-label', `Heat strip of ${names.length} ${what}`);
    this.at = Math.min(this.at, Math.max(names.length - 1, 0));
    this.side = 0;
    this.layout();
  }

  /** Takes cells that changed. */
  change(places, letters) {
    if (!this.pixels) return;
    let [top, bottom] = [Infinity, -1];
    places.forEach((place, n) => {
      this.states[place] = letters[n];
      const row = this.put(place);
      top = Math.min(top, row);
      bottom = Math.max(bottom, row);
    });
    if (bottom < 0) return;
    const cell = this.cell;
    this.context.putImageData(this.pixels, 0, 0, 0, top * cell, this.canvas.width, (bottom - top + 1) * cell);
  }

  layout() {
    const width = this.box.clientWidth;
    const count = this.names.length;
    if (!width || !count) return;
    const rows = (side) => Math.ceil(count / Math.floor(width / side));
    const side = SIDES.find((it) => rows(it) * it <= HEIGHT_MAX) || SIDES[SIDES.length - 1];
    if (side === this.side && width === this.width) return;
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    this.side = side;
    this.width = width;
    this.columns = Math.floor(width / side);
    this.cell = Math.round(side * scale);
    this.canvas.width = this.columns * this.cell;
    this.canvas.height = rows(side) * this.cell;
    this.canvas.style.width = `${this.columns * side}px`;
    this.canvas.style.height = `${rows(side) * side}px`;
    this.context = this.canvas.getContext('2d');
    this.tiles = {};
    const tile = document.createElement('canvas');
    tile.width = tile.height = this.cell;
    const context = tile.getContext('2d', { willReadFrequently: true });
    const style = getComputedStyle(document.documentElement);
    for (const letter of LETTERS) {
      paintCell(context, letter, this.cell, style);
      this.tiles[letter] = new Uint32Array(context.getImageData(0, 0, this.cell, this.cell).data.buffer);
    }
    this.pixels = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.words = new Uint32Array(this.pixels.data.buffer);
    for (let index = 0; index < count; index += 1) this.put(index);
    this.context.putImageData(this.pixels, 0, 0);
    if (document.activeElement === this.canvas) this.place();
  }

  /** Puts a cell among the pixels; its row. */
  put(index) {
    const { cell, columns, words } = this;
    const tile = this.tiles[this.states[index]];
    const row = Math.floor(index / columns);
    const stride = columns * cell;
    let at = row * cell * stride + (index % columns) * cell;
    for (let y = 0; y < cell; y += 1, at += stride) {
      const from = y * cell;
      for (let x = 0; x < cell; x += 1) words[at + x] = tile[from + x];
    }
    return row;
  }

  under(event) {
    const column = Math.floor(event.offsetX / this.side);
    const index = Math.floor(event.offsetY / this.side) * this.columns + column;
    return column < this.columns && index >= 0 && index < this.names.length ? index : null;
  }

  key(event) {
    const last = this.names.length - 1;
    const page = this.columns * 5;
    const moves = {
      ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns, PageDown: page, PageUp: -page,
    };
    if (event.ctrlKey || event.altKey || event.metaKey || last < 0) return;
    if (event.key in moves) {
      this.move(Math.max(0, Math.min(last, this.at + moves[event.key])));
    } else if (event.key === 'Home' || event.key === 'End') {
      this.move(event.key === 'Home' ? 0 : last);
    } else if (event.key === 'n' || event.key === 'N') {
      const step = event.key === 'n' ? 1 : -1;
      for (let n = 1; n <= last + 1; n += 1) {
        const at = (this.at + n * step + (last + 1) * 2) % (last + 1);
        if (this.states[at] === 'f') { this.move(at); break; }
      }
    } else if (event.key === 'Enter' || event.key === ' ') {
      this.open(this.at);
    } else {
      return;
    }
    event.preventDefault();
  }

  move(index) {
    this.at = index;
    this.place();
    if (this.names.length) this.tell(index, true);
  }

  place() {
    if (!this.columns) return;
    const style = this.cursor.style;
    style.left = `${(this.at % this.columns) * this.side - 2}px`;
    style.top = `${Math.floor(this.at / this.columns) * this.side - 2}px`;
    style.width = style.height = `${this.side + 2}px`;
    this.cursor.hidden = false;
  }
}
