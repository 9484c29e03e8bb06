// The last minutes: a small curve for each counter. Each says its newest and highest value as text.

const KINDS = [
  { title: 'Jobs', of: 1, unit: '' },
  { title: 'Changes a second', of: 3, unit: '' },
  { title: 'Failed units', of: 2, unit: '' },
  { title: 'Manager CPU', of: 5, unit: '%' },
];

const SPAN_MS = 10 * 60 * 1000;

// A gap that is longer is not drawn over: nobody looked then.
const GAP_MS = 5000;

const shown = (value) => (value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString('en') : value.toFixed(1));

export class Minutes {
  constructor(box) {
    this.samples = [];
    this.figures = KINDS.map((kind) => {
      const figure = document.createElement('figure');
      const caption = document.createElement('figcaption');
      const title = document.createElement('span');
      title.textContent = kind.title;
      const now = document.createElement('span');
      now.className = 'now';
      caption.append(title, now);
      const canvas = document.createElement('canvas');
      canvas.setAttribute('role', 'img');
      figure.append(caption, canvas);
      box.append(figure);
      return { kind, now, canvas };
    });
    this.still = matchMedia('(prefers-reduced-motion: reduce)');
    this.drawn = 0;
  }

  add(samples) {
    this.samples.push(...samples);
    const newest = this.samples.length ? this.samples[this.samples.length - 1][0] : 0;
    this.samples = this.samples.filter((sample) => sample[0] > newest - SPAN_MS);
    // Who wants less motion gets a new picture six times a minute.
    if (this.still.matches && newest - this.drawn < 10_000) return;
    this.drawn = newest;
    this.figures.forEach((figure) => this.draw(figure, newest));
  }

  draw({ kind, now, canvas }, newest) {
    const values = this.samples.map((sample) => sample[kind.of]);
    if (!values.length) return;
    const last = values[values.length - 1];
    const most = Math.max(...values);
    now.textContent = `${shown(last)}${kind.unit}, most ${shown(most)}${kind.unit}`;
    canvas.setAttribute('aria-label', `${kind.title} in the last 10 minutes: now ${shown(last)}${kind.unit}, most ${shown(most)}${kind.unit}`);
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    if (canvas.width !== Math.round(width * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const style = getComputedStyle(document.documentElement);
    const context = canvas.getContext('2d');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.strokeStyle = style.getPropertyValue('--line');
    context.lineWidth = 1;
    for (let minute = 1; minute < 10; minute += 1) {
      const x = Math.round(width * (minute / 10)) + 0.5;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height);
      context.stroke();
    }
    context.strokeStyle = style.getPropertyValue('--text');
    context.lineWidth = 1.5;
    context.beginPath();
    let before = -Infinity;
    for (const sample of this.samples) {
      const x = width - ((newest - sample[0]) / SPAN_MS) * width;
      const y = height - 3 - (most > 0 ? sample[kind.of] / most : 0) * (height - 8);
      if (sample[0] - before > GAP_MS) context.moveTo(x, y);
      else context.lineTo(x, y);
      before = sample[0];
    }
    context.stroke();
  }
}
