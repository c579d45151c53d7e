// The trace widget: an answer's steps on a timeline, one of them in full. Every text comes from outside (a model, a page) and
// goes into the page as textContent only; nothing is fetched.

const make = (tag, name, text) => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
};

const button = (text, label) => {
  const node = make("button", "ipyws-t-button", text);
  node.type = "button";
  node.title = label;
  node.setAttribute("aria-label", label);
  return node;
};

// The request and response of a model have their own cards; only its steps count tokens.
const isModel = (step) => step.tokens !== "";

function timelineRow(step, choose) {
  const row = make("button", `ipyws-t-row ipyws-t-${/^[a-z]+$/.test(step.kind) ? step.kind : "tool"}`);
  row.type = "button";
  row.append(make("span", "ipyws-t-n", String(step.n)), make("span", "ipyws-t-name", step.what));
  const lane = make("span", "ipyws-t-lane");
  const bar = make("span", "ipyws-t-bar");
  bar.style.marginLeft = `${step.start}%`;
  bar.style.width = `${step.width}%`;
  lane.append(bar);
  row.append(lane, make("span", "ipyws-t-number", step.time), make("span", "ipyws-t-number", step.cost));
  row.addEventListener("click", () => choose(step.n));
  return row;
}

// A step's JSON as cards: who speaks, what kind of block it is, its text.
const json = (value) => JSON.stringify(value, null, 2) ?? "";
const listed = (content) => (Array.isArray(content) ? content : [content]);
const typeOf = (block) => String(block?.type ?? "");
const entry = (who, kind, text, open = true) => ({ who, kind, text, open });

function textOf(block) {
  if (typeof block === "string") return block;
  switch (typeOf(block)) {
    case "text": {
      const cited = listed(block.citations ?? []).map((citation) => citation?.source || citation?.url);
      return [block.text, ...[...new Set(cited)].filter(Boolean).sort().map((url) => `  ↳ ${url}`)].join("\n");
    }
    case "thinking":
      return String(block.thinking);
    case "tool_use":
    case "server_tool_use":
      return json(block.input);
    case "search_result":
      return [block.title, block.source, "", ...listed(block.content).map(textOf)].join("\n");
    default:
      return json(block);
  }
}

function blocks(who, content) {
  return listed(content).flatMap((block) => {
    const kind = typeOf(block);
    if (kind === "tool_result" && Array.isArray(block.content)) {
      return block.content.map((inner) => entry("result", typeOf(inner), textOf(inner)));
    }
    const label = kind.endsWith("tool_use") ? `${kind} ${block.name}` : kind;
    return [entry(who, kind === "text" ? "" : label, textOf(block))];
  });
}

function sentCards(step) {
  if (!step.sent) return [];
  const sent = JSON.parse(step.sent);
  if (!isModel(step) || sent === null || typeof sent !== "object") return [entry("input", "", json(sent))];
  const { system, tools, messages, ...settings } = sent;
  const cards = [entry("settings", "", json(settings), false)];
  if (system) cards.push(entry("system", "", listed(system).map(textOf).join("\n\n"), false));
  if (tools) {
    const names = typeof tools === "string" ? tools : listed(tools).map((tool) => tool?.name).join(", ");
    cards.push(entry("tools", names, typeof tools === "string" ? tools : json(tools), false));
  }
  for (const message of listed(messages ?? [])) {
    if (typeof message === "string") cards.push(entry("earlier", "", message, false));
    else cards.push(...blocks(String(message?.role), message?.content));
  }
  return cards;
}

function gotCards(step) {
  if (!step.got) return [];
  const got = JSON.parse(step.got);
  if (isModel(step)) return blocks("assistant", got);
  return typeOf(got) === "tool_result" ? blocks("result", got.content) : [entry("result", "", json(got))];
}

function card(one) {
  const box = make("details", `ipyws-t-card ipyws-t-who-${/^[a-z]+$/.test(one.who) ? one.who : "other"}`);
  box.open = one.open;
  const head = make("summary");
  head.append(make("b", "", one.who), document.createTextNode(one.kind ? ` · ${one.kind}` : ""));
  box.append(head, make("pre", "", one.text));
  return box;
}

function detail(step) {
  const box = make("div", "ipyws-t-detail");
  const facts = make("div", "ipyws-t-facts");
  const what = isModel(step) ? "request to the model" : "tool call";
  const parts = [what, step.time, step.tokens && `${step.tokens} tokens`, step.cached && `${step.cached} from the cache`, step.cost];
  facts.append(make("span", "", parts.filter(Boolean).join(" · ")));
  box.append(facts, make("div", step.kind === "error" ? "ipyws-t-outcome ipyws-t-failed" : "ipyws-t-outcome", step.what));
  for (const [title, entries] of [["What went out", sentCards(step)], ["What came back", gotCards(step)]]) {
    if (!entries.length) continue;
    box.append(make("div", "ipyws-t-heading", title), ...entries.map(card));
  }
  return box;
}

function render({ model, el }) {
  const root = make("div", "ipyws-t mathjax_ignore tex2jax_ignore");
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Trace of an answer: arrow keys go from step to step");
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  el.append(root);

  const count = () => model.get("steps").length;
  const choose = (n) => {
    model.set("step", Math.max(1, Math.min(count(), n)));
    model.save_changes();
  };
  const move = (by) => choose(model.get("step") + by);

  const head = make("div", "ipyws-t-title");
  const rows = make("div", "ipyws-t-rows");
  const bar = make("div", "ipyws-t-controls");
  const first = button("|◀", "First step (Home)");
  const back = button("◀ back", "One step back (left arrow)");
  const next = button("next ▶", "One step forward (right arrow)");
  const last = button("▶|", "Last step (End)");
  const place = make("span", "ipyws-t-place");
  place.setAttribute("aria-live", "polite");
  const pane = make("div", "ipyws-t-pane");
  bar.append(first, back, next, last, place);
  root.append(head, rows, bar, pane);
  first.addEventListener("click", () => choose(1));
  back.addEventListener("click", () => move(-1));
  next.addEventListener("click", () => move(1));
  last.addEventListener("click", () => choose(count()));

  const draw = () => {
    const steps = model.get("steps");
    const at = Math.max(1, Math.min(steps.length, model.get("step")));
    const step = steps[at - 1];
    [...rows.children].forEach((row, index) => {
      row.classList.toggle("ipyws-t-later", index + 1 > at);
      row.classList.toggle("ipyws-t-now", index + 1 === at);
      index + 1 === at ? row.setAttribute("aria-current", "step") : row.removeAttribute("aria-current");
    });
    first.disabled = back.disabled = at <= 1;
    next.disabled = last.disabled = at >= steps.length;
    place.textContent = step ? `step ${at} of ${steps.length} · so far ${step.so_far}` : "no steps";
    pane.replaceChildren(...(step ? [detail(step)] : []));
  };

  const build = () => {
    head.textContent = model.get("title");
    rows.replaceChildren(...model.get("steps").map((step) => timelineRow(step, choose)));
    draw();
  };

  root.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: () => move(-1), ArrowRight: () => move(1), Home: () => choose(1), End: () => choose(count()) };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    moves[event.key]();
  });

  // The page without scripts stands above, for when the notebook is opened again without this widget's state.
  const hidePage = () => {
    const mark = model.get("mark");
    if (!/^ipyws-[a-z0-9]+$/.test(mark)) return;
    for (const page of document.getElementsByClassName(mark)) (page.closest(".jp-OutputArea-child") || page).style.display = "none";
  };
  hidePage();
  setTimeout(hidePage, 500);

  build();
  model.on("change:step", draw);
  model.on("change:steps", build);
  return () => {
    model.off("change:step", draw);
    model.off("change:steps", build);
  };
}

export default { render };
