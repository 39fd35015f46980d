// The script of the page. It shows all texts with textContent, so that no document
// becomes markup, and control characters as \uXXXX. Objects of the API have large
// numbers as strings.

const $ = id => document.getElementById(id)

// ---- texts ----

const unsafe = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff]/g
const pairs = /[\ud800-\udbff][\udc00-\udfff]/g
const escaped = s => [...Array(s.length).keys()].map(i => '\\u' + s.charCodeAt(i).toString(16).padStart(4, '0')).join('')

// visible keeps characters beyond 16 bits but for tags, which are invisible.
function visible(text) {
  let out = '', from = 0
  const clean = s => s.replace(unsafe, escaped)
  text = String(text ?? '')
  for (const m of text.matchAll(pairs)) {
    const tag = m[0].codePointAt(0) >= 0xe0000 && m[0].codePointAt(0) <= 0xe0fff
    out += clean(text.slice(from, m.index)) + (tag ? escaped(m[0]) : m[0])
    from = m.index + 2
  }
  return out + clean(text.slice(from))
}

function el(tag, props = {}, ...children) {
  const e = document.createElement(tag)
  for (const [name, value] of Object.entries(props)) {
    if (name === 'on') e.addEventListener('click', value)
    else if (name === 'class') e.className = value
    else if (value !== undefined && value !== false) e.setAttribute(name, value === true ? '' : value)
  }
  for (const c of children) if (c !== null && c !== undefined) e.append(c.nodeType ? c : visible(c))
  return e
}

// clock shows a time of today, or a time with its day.
function clock(t) {
  const d = new Date(t), isToday = d.toDateString() === new Date().toDateString()
  return d.toLocaleString([], { ...(isToday ? {} : { year: 'numeric', month: 'short', day: 'numeric' }), hour12: false, hour: '2-digit', minute: '2-digit', second: '2-digit' })
}
const exactClock = t => clock(t) + '.' + String(new Date(t).getMilliseconds()).padStart(3, '0')
const time = (t, text = clock(t)) => el('time', { datetime: t, title: new Date(t).toLocaleString([], { dateStyle: 'medium', timeStyle: 'long' }) }, text)
const millis = n => n < 1 ? n.toFixed(2) + ' ms' : n < 1000 ? Math.round(n) + ' ms' : (n / 1000).toFixed(1) + ' s'
const age = s => s < 120 ? Math.round(s) + ' s' : s < 7200 ? Math.round(s / 60) + ' min' : Math.round(s / 3600) + ' h'
const plural = (n, thing) => `${n} ${thing}${n === 1 ? '' : 's'}`
const counted = (r, n) => r.counted ? n : '–' // another process counts what it handles
const behind = r => !r.known ? '?' : (r.exact ? '' : '~') + r.changes

// keyText shows the key of one string without its brackets.
function keyText(key) {
  try {
    const k = JSON.parse(key)
    return k.length === 1 && typeof k[0] === 'string' ? k[0] : key
  } catch {
    return key
  }
}

// middle cuts the middle out of a lease token of two keys.
const middle = text => text.length > 15 ? text.slice(0, 6) + '…' + text.slice(-8) : text

const shapes = {
  delivering: ['busy', '◔'], failed: ['warn', '▲'], handled: ['good', '✓'], 'dead-lettered': ['bad', '✕'], blocked: ['bad', '■'], postponed: ['warn', '◷'],
  running: ['good', '✓'], killed: ['bad', '✕'], silent: ['bad', '✕'], paused: ['warn', '‖'], problem: ['bad', '▲'], ready: ['good', '✓'], free: ['warn', '○'], working: ['busy', '◔'],
}
function badge(state, text = state) {
  const [kind, shape] = shapes[state] || ['busy', '•']
  const b = el('span', { class: 'state ' + kind })
  b.append(el('span', { 'aria-hidden': 'true' }, shape + ' '), visible(text))
  return b
}

// ---- requests ----

const tags = new Map() // of answers, for a page that asks again and again

async function api(path, body) {
  const known = body ? undefined : tags.get(path)
  const answer = await fetch('api/v1/' + path, body ? { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
    : { headers: known ? { 'if-none-match': known.tag } : {} })
  if (answer.status === 304) return known.value
  const value = await answer.json().catch(() => ({}))
  if (!answer.ok) throw Object.assign(new Error([value.message || answer.statusText, value.next].filter(Boolean).join('; ')), { code: value.code })
  if (status.polled && answer.headers.get('etag')) {
    if (tags.size > 50) tags.clear()
    tags.set(path, { tag: answer.headers.get('etag'), value })
  }
  return value
}

const pause = ms => new Promise(done => setTimeout(done, ms))

let noticeEnds
function tell(text, failed) {
  $('notice').textContent = visible(text)
  $('notice').className = failed ? 'bad' : ''
  $('notice').hidden = false
  clearTimeout(noticeEnds)
  noticeEnds = setTimeout(() => { $('notice').hidden = true }, failed ? 15000 : 6000)
}

const begin = (plan, confirm = '') => api('plans/' + plan.plan, { confirm })

// finish waits for the end of an operation.
async function finish({ operation }) {
  for (let wait = 100; ; wait = Math.min(wait * 1.5, 1000)) {
    const o = await api('operations/' + operation)
    if (o.state === 'running') {
      await pause(wait)
      continue
    }
    tell(o.text, o.state === 'failed')
    if (status.polled) refresh().catch(lost)
    return
  }
}

// act does an action that needs no confirmation.
async function act(action, select, button) {
  await whileBusy(button, async () => {
    try {
      await finish(await begin(await api('plans', { action, select })))
    } catch (e) {
      tell(`${action}: ${e.message}`, true)
    }
  })
}

// whileBusy has a button do something once at a time. It keeps the focus, which a disabled one loses.
async function whileBusy(button, work) {
  if (button?.getAttribute('aria-disabled')) return
  button?.setAttribute('aria-disabled', 'true')
  await work()
  button?.removeAttribute('aria-disabled')
}

const can = action => status.canAct && status.actions.includes(action)

// actionButton is null if the viewer cannot do the action.
function actionButton(action, label, select, about) {
  return can(action) ? el('button', { type: 'button', 'aria-label': `${label} ${about}`, on: e => act(action, select, e.currentTarget) }, label) : null
}

// ---- the dialog: the plan of an action, with the document of an edit before it ----

function planLine(text, kind) {
  const mark = text[0]
  if (mark === '+' || mark === '-') return el('li', { class: 'line ' + (mark === '+' ? 'added' : 'removed') }, text)
  return el('li', { class: kind }, kind ? 'Note: ' + text : text)
}

const dialog = $('dialog')
let proceed
function openDialog(title, label, next) {
  $('dialog-title').textContent = visible(title)
  $('dialog-do').textContent = label
  $('dialog-error').textContent = ''
  $('effects').replaceChildren()
  for (const part of ['editor', 'lease-form', 'export', 'confirm-part']) $(part).hidden = true
  $('confirm').value = ''
  proceed = next
  dialog.showModal()
}
dialog.querySelector('form').addEventListener('submit', async e => {
  e.preventDefault()
  await whileBusy($('dialog-do'), async () => {
    try {
      await proceed()
    } catch (error) {
      $('dialog-error').textContent = visible(error.message)
    }
  })
})
$('dialog-cancel').addEventListener('click', () => dialog.close())

function showPlan(plan, label) {
  $('effects').replaceChildren(...plan.effects.map(t => planLine(t, '')), ...plan.warnings.map(t => planLine(t, 'warning')))
  $('dialog-do').textContent = label
  $('export').hidden = !plan.export
  if (plan.export) $('export-link').setAttribute('href', plan.export)
  $('confirm-part').hidden = !plan.confirm
  $('confirm-label').textContent = `Type ${plan.confirm} to confirm:`
  proceed = async () => {
    let begun
    try {
      begun = await begin(plan, $('confirm').value.trim())
    } catch (e) {
      if (e.code !== 'confirm') closeNext()
      throw e
    }
    dialog.close()
    finish(begun).catch(e => tell(e.message, true))
  }
  ;(plan.confirm ? $('confirm') : $('dialog-do')).focus()
}

// closeNext leaves a plan that cannot be done.
function closeNext() {
  $('dialog-do').textContent = 'Close'
  proceed = async () => dialog.close()
}

// review shows the plan of an action and does it.
async function review(action, label, title, select) {
  try {
    const plan = await api('plans', { action, select })
    openDialog(title, label, null)
    showPlan(plan, label)
  } catch (e) {
    tell(e.message, true)
  }
}

// manage asks which change of leases to plan.
function manage(select) {
  openDialog(select.range ? `Lease of range ${select.range}, ${select.function}` : `All leases of ${select.function}`, 'Plan', async () => {
    const action = $('lease-action').value
    const args = { reason: action === 'pause' ? $('lease-reason').value : '', to: action === 'seek' ? $('lease-to').value.trim() : '', force: /release|seek/.test(action) && $('lease-force').checked }
    const plan = await api('plans', { action, select, args })
    $('dialog-error').textContent = ''
    $('lease-form').hidden = true
    showPlan(plan, action[0].toUpperCase() + action.slice(1))
  })
  const paused = ranges.get(select.function + '\n' + select.range)?.paused
  $('lease-action').replaceChildren(...['pause', 'resume', 'release', 'seek'].filter(can).map(a => el('option', { value: a, selected: a === (paused ? 'resume' : 'pause') }, a)))
  $('lease-form').hidden = false
  for (const id of ['lease-reason', 'lease-to']) $(id).value = ''
  $('lease-force').checked = false
  leaseFields()
  $('lease-action').focus()
}
const leaseFields = () => { for (const l of document.querySelectorAll('#lease-form [data-for]')) l.hidden = !l.dataset.for.includes($('lease-action').value) }
$('lease-action').addEventListener('input', leaseFields)

function edit(title, select, text) {
  openDialog(title, 'Review', async () => {
    const plan = await api('plans', { action: 'edit', select, args: { document: $('editor-text').value } })
    $('dialog-error').textContent = ''
    $('editor').hidden = true
    showPlan(plan, 'Deliver')
  })
  $('editor').hidden = false
  $('editor-text').value = visible(text)
  $('editor-text').focus()
  $('editor-text').setSelectionRange(0, 0)
}

// ---- lists whose nodes stay: focus, selection and open details survive updates ----

// reconcile gives parent a child for each item, in order. Children are made again only if
// their item has changed, and only if they do not hold the focus: then update is called.
function reconcile(parent, items, keyOf, render) {
  const old = new Map([...parent.children].map(c => [c.dataset.key, c]))
  let at = parent.firstElementChild
  for (const item of items) {
    const key = keyOf(item), mark = JSON.stringify([item, status.canAct])
    let node = old.get(key)
    old.delete(key)
    if (!node || node.mark !== mark) {
      const fresh = render(item)
      fresh.dataset.key = key
      if (node) {
        if (at === node) at = node.nextElementSibling
        keep(node, fresh)
      } else {
        node = fresh
      }
      node.mark = mark
    }
    if (node === at) {
      at = at.nextElementSibling
      continue
    }
    const focused = node.contains(document.activeElement) && document.activeElement
    parent.insertBefore(node, at)
    if (focused) focused.focus()
  }
  for (const node of old.values()) drop(node)
}

// drop takes a node away, or puts another one in its place. If it has the focus, the heading of its
// section gets it.
function drop(node, fresh) {
  const heading = node.contains(document.activeElement) && node.closest?.('section')?.querySelector('h2')
  if (fresh) node.replaceWith(fresh)
  else node.remove()
  if (!heading) return
  heading.tabIndex = -1
  heading.focus()
}

// keep makes node equal to fresh, and replaces only the parts that differ.
function keep(node, fresh) {
  if (node.nodeType !== fresh.nodeType || node.nodeName !== fresh.nodeName || node.childNodes.length !== fresh.childNodes.length && node.nodeName === 'BUTTON') {
    drop(node, fresh)
    return
  }
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== fresh.data) node.data = fresh.data
    return
  }
  for (const a of fresh.attributes) if (node.getAttribute(a.name) !== a.value) node.setAttribute(a.name, a.value)
  for (const a of [...node.attributes]) if (!fresh.hasAttribute(a.name) && !/^(open|disabled|aria-disabled)$/.test(a.name)) node.removeAttribute(a.name)
  const before = [...node.childNodes], after = [...fresh.childNodes]
  after.forEach((child, i) => before[i] ? keep(before[i], child) : node.append(child))
  before.slice(after.length).forEach(child => drop(child))
}

// ---- state of the page ----

let status = { canAct: false, actions: [], hosts: [], functions: [], why: [], poison: [], health: {} }
const ranges = new Map() // of the shown page of the list
let rangeKeys = [], rangeTotal = 0, rangesFrom = 0, rangesNext = ''
let changes = new Map(), order = [], waiting = [], next = '', shown = 100, dropped = 0, kept = 0, version = '0', run = ''
let letters = { items: [], total: 0 }, letterTokens = [''] // of the pages up to the shown one
let moments = [], moment = '0'
const form = $('filters')
const filters = () => Object.fromEntries([...new FormData(form)].filter(([, v]) => v))
const query = extra => new URLSearchParams({ ...filters(), ...extra }).toString()

function matches(c) {
  const f = filters()
  return (!f.function || f.function === c.function) && (!f.range || f.range === c.range) && (!f.state || f.state === c.state) &&
    (!f.key || c.key.includes(f.key) || c.documentId.includes(f.key))
}

// ---- health, functions, hosts, ranges ----

let announcedAt = 0, announcedText = ''

// link leads to this page with a filter, also from another machine: it has no token.
const link = (filter, text) => el('a', { href: '?' + new URLSearchParams(filter) + '#ranges' }, text)

function showStatus() {
  const h = status.health
  $('app').textContent = visible(status.app)
  document.title = (h.problems ? `(${h.problems}) ` : '') + visible(status.app) + ' · Halley'
  const tiles = [['Behind', behind(h), false], ['Oldest change', h.known ? age(h.seconds) : '?', false], ['Problems', h.problems, h.problems > 0], ['Paused ranges', h.paused, false], ['Dead letters', h.letters < 0 ? '…' : h.letters, h.letters > 0], ['Hosts', h.hosts, h.hosts === 0]]
  reconcile($('health'), tiles, t => t[0], ([name, value, bad]) => el('div', { class: bad ? 'bad' : '' }, el('dt', {}, name), el('dd', {}, value)))
  const text = `${plural(h.changes, 'change')} behind, ${plural(h.problems, 'problem')}, ${plural(Math.max(h.letters, 0), 'dead letter')}, ${plural(h.hosts, 'host')}`
  if (text !== announcedText && Date.now() - announcedAt > 10000) {
    announcedAt = Date.now()
    $('announce').textContent = announcedText = text
  }
  $('readonly').hidden = status.canAct || !status.actions.length
  reconcile($('why'), status.why.slice(0, 4), c => c.title, c => el('li', {}, el('strong', {}, c.title), el('span', { class: 'problem' }, c.cause),
    el('small', {}, `since ${c.since}; ${c.evidence}`), el('span', { class: 'advice' }, 'Next: ' + c.next)))
  reconcile($('functions'), status.functions, f => f.name, f => el('li', {},
    el('strong', {}, link({ function: f.name }, f.name)), el('small', {}, 'of ' + f.container), el('small', {}, plural(f.ranges, 'range')),
    f.stalled ? link({ function: f.name, rangeState: 'stalled' }, `${f.stalled} stalled`) : null,
    el('small', {}, f.keeps ? 'dead letters: ' + f.deadLetters : f.deadLetters === 'none' ? 'no store: failures block' : 'dead letters are dropped'),
    f.units ? el('small', { class: 'units' }, f.units) : null,
    can('pause') ? el('button', { type: 'button', 'aria-label': 'Manage all leases of ' + f.name, on: () => manage({ function: f.name }) }, 'Manage') : null,
    f.problem ? el('span', { class: 'problem' }, '▲ ' + f.problem) : null))
  reconcile($('hosts'), status.hosts, x => x.name, x => el('li', {}, badge(x.state), el('strong', {}, x.name), el('small', {}, plural(x.leases, 'lease') + (x.elsewhere ? ', another process' : '')),
    x.state === 'running' ? actionButton('kill', 'Kill', { host: x.name }, x.name) : null))
  reconcile($('host-actions'), can('start') ? ['start'] : [], k => k, () => actionButton('start', 'Start a host', {}, ''))
  reconcile($('poison'), status.poison, id => id, id => el('li', {}, badge('failed', 'poison'), el('span', { class: 'mono' }, id), actionButton('cure', 'Cure', { document: id }, id)))
  $('changes-title').textContent = status.failures ? 'Failed calls' : 'Changes'
  const select = form.elements.function
  if (select.options.length !== status.functions.length + 1) {
    const chosen = select.value || new URLSearchParams(location.search).get('function') || ''
    select.replaceChildren(el('option', { value: '' }, 'all'), ...status.functions.map(f => el('option', { value: f.name }, f.name)))
    select.value = chosen
  }
}

const svg = (tag, attributes) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value)
  return e
}
const sum = numbers => numbers.reduce((a, b) => a + b, 0)
const rateLabel = rate => `${plural(sum(rate.slice(-12)), 'change')} in the last minute, ${sum(rate)} in 5 minutes`
function spark(numbers, label) {
  const rate = numbers.map(n => Math.max(n, 0)) // -1 is not known
  const most = Math.max(...rate, 1)
  const s = svg('svg', { class: 'spark', viewBox: '0 0 120 20', role: 'img', 'aria-label': label })
  const title = svg('title', {})
  title.textContent = label
  s.append(title, svg('line', { x1: 0, y1: 19, x2: 120, y2: 19 }), svg('polyline', { points: rate.map((n, i) => `${(i * 120 / 59).toFixed(1)},${(19 - 18 * n / most).toFixed(1)}`).join(' ') }))
  return s
}

// loadGraphs shows the last hour of each function on this host.
async function loadGraphs() {
  const last = numbers => numbers.slice(-2).findLast(n => n >= 0) ?? '?' // the newest minute may have no sample yet
  const draw = (name, numbers, text) => el('span', { class: 'graph' }, el('small', {}, name), spark(numbers, text))
  reconcile($('graphs'), (await api('graphs')).items, g => g.function, g => el('li', {}, el('strong', {}, g.function),
    draw('behind', g.behind, `${last(g.behind)} behind, at most ${g.behind.some(n => n >= 0) ? Math.max(...g.behind) : '?'} in the last hour`),
    draw('handled', g.handled, `${sum(g.handled)} handled in the last hour, at most ${Math.max(...g.handled)} a minute`),
    draw('failed calls', g.failed, `${plural(sum(g.failed), 'failed call')} in the last hour`),
    draw('dead letters', g.letters, `${plural(sum(g.letters), 'dead letter')} in the last hour`)))
}

function rangeState(r) {
  if (r.problem) {
    const cell = el('td', { class: 'why' }, r.paused ? badge('paused') : r.limited ? badge('working', 'limited') : badge('problem', 'stalled'), el('div', { class: r.limited ? 'advice' : 'problem' }, r.problem))
    if (r.advice) cell.append(el('div', { class: 'advice' }, 'Next: ' + r.advice))
    return cell
  }
  if (!r.owner) return el('td', { class: 'why' }, badge('free'))
  return el('td', { class: 'why' }, r.changes > 0 ? badge('working', 'behind') : badge('ready', 'caught up'))
}

// showRanges leaves the rows where they are while a viewer is at them.
let shownKeys = []
function showRanges() {
  shownKeys = held('range-table') ? [...new Set([...shownKeys, ...rangeKeys])].filter(k => rangeKeys.includes(k)) : rangeKeys
  const rows = shownKeys.map(k => ranges.get(k)).filter(Boolean)
  const acts = can('split') || can('pause')
  document.querySelector('[data-actions]').hidden = !acts
  reconcile($('range-rows'), rows, r => r.function + '\n' + r.range, r => el('tr', {},
    el('td', {}, r.function), el('td', { class: 'mono', title: visible(r.range) }, link({ function: r.function, range: r.range }, middle(r.range))), el('td', {}, r.owner || '(free)'),
    el('td', { class: 'number' }, behind(r)), el('td', { class: 'number' }, r.known ? age(r.seconds) : '?'),
    el('td', {}, spark(r.rate || Array(60).fill(0), rateLabel(r.rate || []))), el('td', { class: 'number' }, counted(r, r.handled)), el('td', { class: 'number' }, counted(r, r.retries)),
    el('td', { class: 'mono', title: `epoch ${visible(r.epoch)}` }, r.continuation || '-', r.checkpointed ? el('small', {}, ' ', time(r.checkpointed)) : null), rangeState(r),
    acts ? el('td', {}, el('div', { class: 'actions' },
      can('pause') ? el('button', { type: 'button', 'aria-label': 'Manage range ' + visible(r.range), on: () => manage({ function: r.function, range: r.range }) }, 'Manage') : null, actionButton('split', 'Split', { function: r.function, range: r.range }, 'range ' + r.range),
      actionButton('merge', 'Merge with next', { function: r.function, range: r.range }, 'range ' + r.range))) : null))
  const f = filters(), filtered = f.function || f.range || f.rangeState
  $('ranges-empty').hidden = rows.length > 0
  $('ranges-empty').textContent = filtered ? 'No range matches the filter.' : status.hosts.length ? 'No host has a range yet.' : 'No host has run.'
  $('ranges-note').textContent = rangeTotal ? `${rows.length < rangeTotal ? `${rangesFrom + 1} to ${rangesFrom + rows.length} of ` : ''}${plural(rangeTotal, 'range')}${filtered ? ' found' : ''}, those with a problem first` : ''
  $('ranges-next').hidden = !rangesNext
  $('ranges-back').hidden = !rangesFrom
}

// turnRanges shows another part of the ranges.
function turnRanges(from) {
  rangesFrom = from
  restart().then(() => $('ranges').scrollIntoView())
}
$('ranges-next').addEventListener('click', () => turnRanges(Number(rangesNext)))
$('ranges-back').addEventListener('click', () => turnRanges(Math.max(0, rangesFrom - 100)))

function takeRanges(l) {
  for (const r of l.items) ranges.set(r.function + '\n' + r.range, r)
  rangeKeys = l.keys || l.items.map(r => r.function + '\n' + r.range)
  for (const key of ranges.keys()) if (!rangeKeys.includes(key)) ranges.delete(key)
  rangeTotal = l.total
  rangesNext = l.next || ''
  showRanges()
}

// ---- changes ----

function attemptText(c) {
  return !c.attempt ? '' : c.maxAttempts >= c.attempt ? `${c.attempt} of ${c.maxAttempts}` : c.attempt
}

function changeRow(c) {
  return el('tr', { class: c.id === open.id ? 'open' : '' }, el('td', {}, badge(c.state)),
    el('td', {}, el('button', { type: 'button', class: 'row', 'data-open': c.id, 'aria-label': 'Show document ' + visible(c.documentId) }, c.documentId)),
    el('td', { class: 'mono', title: visible(c.key) }, keyText(c.key)), el('td', {}, c.function), el('td', { class: 'mono', title: visible(c.range) }, middle(c.range)),
    el('td', { class: 'number' }, c.lsn), el('td', { class: 'number' }, attemptText(c)),
    el('td', { class: 'number' }, c.state === 'delivering' ? 'running' : c.millis ? millis(c.millis) : ''), el('td', {}, time(c.arrived, exactClock(c.arrived))),
    el('td', { class: 'text', title: visible(c.error) }, c.error || ''))
}

// held: a viewer is at the rows with the mouse or the keyboard, so that none must move.
const held = table => $(table).matches(':hover') || !!$(table).querySelector(':focus-visible')

function showChanges() {
  if (waiting.length && !held('change-table')) insertWaiting()
  const rows = order.map(id => changes.get(id)).filter(matches).slice(0, shown)
  reconcile($('change-rows'), rows, c => c.id, changeRow)
  $('changes-empty').hidden = rows.length > 0
  $('changes-empty').textContent = Object.keys(filters()).length ? 'No change matches the filter.' : status.failures ? 'No call has failed since this process started.' : 'No change has arrived yet. Write a document to a monitored container.'
  $('more').hidden = !next && rows.length < shown
  const fresh = waiting.filter(id => matches(changes.get(id))).length
  $('fresh').hidden = !fresh
  $('fresh').textContent = `Show ${plural(fresh, 'new change')}`
  $('kept').textContent = (status.failures ? 'of this process, without documents: ' : '') + `the newest ${kept}` + (dropped ? `, ${dropped} older ones are not kept` : '')
}

function insertWaiting() {
  order = [...waiting, ...order]
  waiting = []
  for (const id of order.splice(1000)) changes.delete(id)
}
$('fresh').addEventListener('click', () => { insertWaiting(); showChanges() })

function takeChanges(l) {
  version = l.version
  dropped = l.dropped
  kept = l.kept
  const fresh = []
  for (const c of l.items) {
    if (!changes.has(c.id)) fresh.push(c.id)
    changes.set(c.id, c)
    if (c.id === open.id) refreshDrawer()
  }
  waiting = [...fresh, ...waiting]
  for (const id of waiting.splice(1000)) changes.delete(id)
  if (l.more) reloadSoon()
  showChanges()
}

let reloading
function reloadSoon() {
  reloading ??= setTimeout(() => { reloading = undefined; loadChanges().catch(lost) }, 1000)
}

async function loadChanges() {
  const l = await api('changes?' + query({ limit: Math.min(shown, 500) }))
  changes = new Map(l.items.map(c => [c.id, c]))
  order = l.items.map(c => c.id)
  waiting = []
  ;({ next = '', dropped, kept, version } = l)
  showChanges()
}

$('more').addEventListener('click', async () => {
  shown += 100
  if (next) {
    const l = await api('changes?' + query({ after: next, limit: 100 }))
    for (const c of l.items) {
      if (!changes.has(c.id)) order.push(c.id)
      changes.set(c.id, c)
    }
    next = l.next || ''
  }
  showChanges()
})

// ---- dead letters, timeline, settings ----

async function loadLetters() {
  const { state, rangeState, ...f } = filters(), after = letterTokens.at(-1)
  const answer = await api('letters?' + new URLSearchParams(after ? { ...f, after } : f))
  if (after !== letterTokens.at(-1)) return // the viewer has turned the page
  letters = answer
  reconcile($('letter-rows'), letters.items, l => l.id, l => el('tr', { class: l.id === open.id ? 'open' : '' },
    el('td', {}, el('input', { type: 'checkbox', 'data-select': l.id, checked: selected.has(l.id), 'aria-label': 'Select dead letter of document ' + visible(l.documentId) })), el('td', {}, time(l.time, exactClock(l.time))),
    el('td', {}, el('button', { type: 'button', class: 'row', 'data-letter': l.id, 'aria-label': 'Show dead letter of document ' + visible(l.documentId) }, l.documentId)),
    el('td', { class: 'mono' }, keyText(l.key)), el('td', {}, l.function), el('td', { class: 'mono', title: visible(l.range) }, middle(l.range)), el('td', { class: 'number' }, l.lsn),
    el('td', {}, l.due ? badge('postponed', 'postponed until ' + exactClock(l.due)) : l.blocked ? badge('blocked') : l.attempts), el('td', { class: 'text', title: visible(l.error) }, l.error)))
  $('letters-empty').hidden = letters.items.length > 0
  $('letters-empty').textContent = letters.next ? 'None found so far.' : Object.keys(f).length ? 'No dead letter matches the filter.' : 'No dead letters.'
  const all = letters.total + (letters.postponed || 0), filtered = f.key || f.error, first = letterTokens.length === 1
  $('letters-note').textContent = letters.problem ? '▲ ' + visible(letters.problem) : [filtered && `${letters.searched || 0} of ${all} searched` + (letters.stopped ? ', older ones not yet' : ''),
    !filtered && letters.total && `${letters.total} in the store`, !filtered && letters.postponed && `${letters.postponed} postponed`, !first && `page ${letterTokens.length}`].filter(Boolean).join(', ')
  $('older').hidden = !letters.next
  $('older').textContent = letters.stopped ? 'Search further' : 'Older'
  $('newer').hidden = first
  showLetterActions()
}

// showLetterActions has the actions on all dead letters that the filter selects.
function showLetterActions() {
  const f = filters()
  const select = { function: f.function || (status.functions.length === 1 ? status.functions[0].name : ''), range: f.range, key: f.key, error: f.error }
  const about = 'all of ' + [select.function, f.range && 'range ' + f.range, f.key && 'key ' + f.key, f.error && 'error ' + f.error].filter(Boolean).join(', ')
  for (const id of selected) if (!letters.items.some(l => l.id === id)) selected.delete(id)
  $('select-all').checked = selected.size > 0 && selected.size === letters.items.length
  const chosen = letters.items.filter(l => selected.has(l.id)), functions = new Set(chosen.map(l => l.function))
  const some = { function: [...functions][0], ids: chosen.map(l => l.id) }
  const [of, subject] = functions.size === 1 ? [some, plural(chosen.length, 'selected dead letter')] : [select, about]
  const names = letters.items.length && of.function && functions.size < 2 ? [['replay', 'Replay'], ['discard', 'Discard']].filter(([a]) => can(a)) : []
  reconcile($('letter-actions'), names.map(n => [...n, subject, of]), n => JSON.stringify(n), ([action, label]) =>
    el('button', { type: 'button', on: () => review(action, label, `${label} ${subject}`, of) }, `${label} ${subject}`))
  $('export-letters').hidden = !names.length || status.hidden
  $('export-letters').href = 'api/v1/letters.jsonl?' + new URLSearchParams(Object.entries(of).filter(([, v]) => v?.length))
}

// ---- the selected dead letters of the shown page ----

const selected = new Set()
$('letter-rows').addEventListener('input', e => {
  selected[e.target.checked ? 'add' : 'delete'](e.target.dataset.select)
  showLetterActions()
})
$('select-all').addEventListener('input', e => {
  for (const box of document.querySelectorAll('#letter-rows [data-select]')) {
    box.checked = e.target.checked
    selected[box.checked ? 'add' : 'delete'](box.dataset.select)
  }
  showLetterActions()
})

// turn shows another page of the dead letters.
function turn(tokens) {
  letterTokens = tokens
  loadLetters().then(() => $('letters').scrollIntoView(), e => { tell(e.message, true); letterTokens = [''] })
}
$('older').addEventListener('click', () => turn([...letterTokens, letters.next]))
$('newer').addEventListener('click', () => turn(letterTokens.slice(0, -1)))

let lettersAt = 0, lettersLater
function lettersSoon() {
  clearTimeout(lettersLater)
  const wait = Math.max(0, lettersAt + 700 - Date.now())
  lettersLater = setTimeout(() => { lettersAt = Date.now(); loadLetters().catch(lost) }, wait)
}

function takeMoments(l) {
  moments = [...l.items.toReversed(), ...moments].slice(0, 500)
  if (moments.length) moment = moments[0].number
  reconcile($('moments'), moments.slice(0, 100), m => m.number, m => el('li', {}, time(m.time, exactClock(m.time)), el('b', {}, m.kind),
    el('span', {}, [m.function, m.range && 'range ' + middle(m.range), m.host].filter(Boolean).join(' · ')), el('span', { class: 'quiet' }, m.text)))
  $('moments-empty').hidden = moments.length > 0
}

async function loadSettings() {
  const l = await api('settings')
  reconcile($('setting-rows'), l.items, s => s.name, s => el('tr', {}, el('td', { class: 'mono' }, s.name), el('td', { class: 'why' }, s.value), el('td', {}, s.source)))
}

// ---- the drawer: one change or dead letter ----

const open = { id: '', kind: '', from: null }

function facts(list) {
  reconcile($('facts'), list.filter(([, v]) => v !== '' && v !== undefined), f => f[0], ([name, value]) => el('div', {}, el('dt', {}, name), el('dd', { class: name === 'Error' ? 'problem' : '' }, value)))
}

function call(a) {
  const words = a.state === 'delivering' ? 'runs' : a.state
  const kind = { handled: 'good', failed: 'bad', delivering: 'busy' }[a.state]
  const item = el('li', { class: kind }, el('div', {}, time(a.began, exactClock(a.began)), ' ', badge(a.state, `attempt ${a.attempt} ${words}`)),
    el('div', { class: 'quiet' }, [a.direct ? (a.edited ? 'edited, ' : '') + 'delivered from this page' : a.batch > 1 ? `in a batch of ${a.batch}` : a.batch ? 'alone in its batch' : '',
      a.millis ? (a.state === 'delivering' ? 'for ' : 'after ') + millis(a.millis) : '', a.host ? 'on ' + a.host : '', a.epoch ? 'epoch ' + a.epoch : ''].filter(Boolean).join(' · ')))
  if (a.same) item.append(el('div', { class: 'quiet' }, 'the same error'))
  else if (a.error) item.append(el('pre', { class: 'error' }, a.error))
  if (a.stack && !a.same) item.append(el('details', {}, el('summary', {}, 'Stack'), el('pre', {}, a.stack)))
  if (a.document) item.append(el('details', {}, el('summary', {}, 'Edited document'), el('pre', {}, a.document)))
  return item
}

function showDocument(d, path) {
  $('document').textContent = d.hidden ? 'not shown here' : d.document ? visible(d.document) : 'none: the change is a delete'
  const note = $('document-note')
  note.replaceChildren(d.hidden ? '' : `${d.size} bytes` + (d.truncated ? ', of which this is the beginning. ' : '. '))
  if (d.size) note.append(el('a', { href: `api/v1/${path}/document`, download: true }, 'Download'))
  $('previous-part').hidden = !d.previous
  $('previous').textContent = visible(d.previous)
}

function drawerActions(select, d) {
  const title = 'document ' + d.documentId
  const buttons = []
  if (can('deliver')) buttons.push(['deliver', 'Deliver again', () => review('deliver', 'Deliver', 'Deliver ' + title + ' again', select)])
  if (can('replay') && select.letter) {
    buttons.push(['replay', 'Replay', () => review('replay', 'Replay', 'Replay ' + title, select)], ['discard', 'Discard', () => review('discard', 'Discard', 'Discard ' + title, select)])
  }
  if (can('edit') && d.document && !d.truncated) buttons.push(['edit', 'Edit and deliver', () => edit('Edit and deliver ' + title, select, $('document').textContent)])
  if (can('poison') && select.change) buttons.push(['poison', 'Poison', e => act('poison', select, e.currentTarget)])
  reconcile($('drawer-actions'), buttons, b => b[0] + JSON.stringify(select), ([, label, on]) => el('button', { type: 'button', on }, label))
}

async function showDrawer() {
  const { id, kind } = open
  const path = (kind === 'letter' ? 'letters/' : 'changes/') + encodeURIComponent(id)
  const d = await api(path)
  if (id !== open.id) return
  const select = kind === 'letter' ? { letter: id, function: d.function, range: d.range } : { change: id, function: d.function, range: d.range }
  const title = $('drawer-title')
  title.replaceChildren(badge(kind === 'letter' ? (d.due ? 'postponed' : d.blocked ? 'blocked' : 'dead-lettered') : d.state), ' ' + visible(d.documentId))
  drawerActions(select, d)
  facts([['Function', d.function], ['Key', d.key], ['Operation', d.operation], ['Range', d.range], ['LSN', d.lsn], ['Written', new Date(d.written).toLocaleString()],
    ['Arrived', d.arrived && d.attempts.some(a => !a.direct) ? exactClock(d.arrived) : ''], ['Given up', d.time ? exactClock(d.time) : ''], ['Attempts', kind === 'letter' ? d.attempts : attemptText(d)], ['Dead letter', d.letter]])
  const calls = kind === 'letter' ? [] : d.attempts.map((a, i, all) => ({ ...a, i: i + (d.forgotten || 0), same: !!a.error && all[i + 1]?.error === a.error })).reverse()
  reconcile($('life'), calls, a => String(a.i), call)
  if (kind === 'letter') $('life').replaceChildren(...(d.text ? [call({ attempt: d.attempts, began: d.time, state: 'failed', error: d.text, stack: d.stack })] : []))
  showDocument(d, path)
}

let drawerLater
function refreshDrawer() {
  clearTimeout(drawerLater)
  drawerLater = setTimeout(() => showDrawer().catch(closeGone), 100)
}
function closeGone(e) {
  tell(e.message, true)
  closeDrawer()
}

async function openDrawer(kind, id, from) {
  Object.assign(open, { kind, id, from })
  try {
    await showDrawer()
  } catch (e) {
    return closeGone(e)
  }
  $('drawer').hidden = false
  $('drawer').scrollTop = 0
  $('drawer-title').focus()
  markOpen()
  setAddress()
}

function closeDrawer() {
  if (!open.id) return
  $('drawer').hidden = true
  const from = document.querySelector(`[data-${open.kind === 'letter' ? 'letter' : 'open'}="${CSS.escape(open.id)}"]`) || open.from
  open.id = ''
  setAddress()
  markOpen()
  if (from && from.isConnected) from.focus()
}

function markOpen() {
  for (const row of document.querySelectorAll('#change-rows tr, #letter-rows tr')) row.classList.toggle('open', row.dataset.key === open.id)
}

document.addEventListener('click', e => {
  const b = e.target.closest('[data-open], [data-letter]')
  if (b) openDrawer(b.dataset.open ? 'change' : 'letter', b.dataset.open || b.dataset.letter, b)
})
document.addEventListener('keydown', e => { if (e.key === 'Escape' && !dialog.open) closeDrawer() })
$('drawer-close').addEventListener('click', closeDrawer)

// ---- filters and the drawer in the address ----

function setAddress() {
  const q = query(open.id ? { [open.kind]: open.id } : {})
  history.replaceState(null, '', location.pathname + (q ? '?' + q : '') + location.hash)
  $('sign-in').href = 'sign-in' + location.search
}

// openLinked opens the change or dead letter of the address.
function openLinked() {
  const q = new URLSearchParams(location.search)
  for (const kind of ['letter', 'change']) if (q.get(kind)) openDrawer(kind, q.get(kind), null)
}

for (const [name, value] of new URLSearchParams(location.search)) {
  const field = form.elements[name]
  if (!field) continue
  if (name === 'function') field.append(el('option', { value }, value))
  field.value = value
}
let filterLater
function filtersChanged() {
  clearTimeout(filterLater)
  filterLater = setTimeout(() => {
    letterTokens = ['']
    rangesFrom = 0
    setAddress()
    restart()
  }, 150)
}
form.addEventListener('input', filtersChanged)
form.addEventListener('reset', () => setTimeout(filtersChanged))
form.addEventListener('submit', e => e.preventDefault())

// ---- the connection ----

let source, lastEvent = 0, lostAt = null, generation = 0

function connected() {
  lastEvent = Date.now()
  lostAt = null
  $('connection').className = 'live'
  $('connection').textContent = 'live'
}
function lost() {
  lostAt ??= new Date()
  $('connection').className = 'lost'
  $('connection').textContent = `Not connected since ${clock(lostAt)}`
}

async function load() {
  const [s, r, t] = await Promise.all([api('status'), api('ranges?' + query({ after: rangesFrom })), api('timeline')])
  if (run && run !== s.run) closeDrawer()
  status = s
  run = s.run
  moments = []
  takeMoments(t)
  showStatus()
  takeRanges(r)
  await Promise.all([loadChanges(), loadLetters(), loadSettings(), loadGraphs()])
}

// restart reads everything and follows the updates. If the server refuses a further
// stream, the page asks again every few seconds.
async function restart() {
  const mine = ++generation
  source?.close()
  try {
    await load()
    if (mine !== generation) return
    if (status.polled) poll(mine)
    else follow(mine)
  } catch {
    lost()
    await pause(2000)
    if (mine === generation) restart()
  }
}

// poll asks for updates every few seconds, if the server cannot stream.
const pollEvery = 5000
async function poll(mine) {
  try {
    for (connected(); ; connected()) {
      await pause(pollEvery)
      if (mine !== generation) return
      await refresh()
    }
  } catch {
    lost()
    await pause(2000)
    if (mine === generation) restart()
  }
}

async function refresh() {
  const [s, r, t, c] = await Promise.all([api('status'), api('ranges?' + query({ after: rangesFrom })), api('timeline?after=' + moment), api('changes?' + query({ since: version, limit: 200 }))])
  if (s.run !== run) throw new Error('the process was started again')
  status = s
  showStatus()
  takeRanges(r)
  takeMoments(t)
  takeChanges(c)
  await loadLetters()
}

function follow(mine) {
  source = new EventSource('api/v1/stream?' + query({ run, since: version, moment, rangesAfter: rangesFrom }))
  const on = (name, take) => source.addEventListener(name, e => {
    if (mine !== generation) return
    connected()
    take(JSON.parse(e.data))
  })
  on('change', takeChanges)
  on('range', takeRanges)
  on('status', s => { status = s; showStatus(); showRanges() })
  on('letter', lettersSoon)
  on('timeline', takeMoments)
  on('reset', () => restart())
  source.onopen = connected
  source.onerror = async () => {
    if (mine !== generation) return
    if (source.readyState !== EventSource.CLOSED) return lost()
    await pause(3000)
    if (mine === generation) restart()
  }
}

setInterval(() => { if (!document.hidden) loadGraphs().catch(() => {}) }, 15000) // a lost connection is told elsewhere
setInterval(() => {
  if (document.hidden) return
  if (source?.readyState === EventSource.OPEN && Date.now() - lastEvent > 35000) {
    lost()
    restart()
  }
  if (waiting.length && !held('change-table')) showChanges()
  if (shownKeys.join() !== rangeKeys.join() && !held('range-table')) showRanges()
}, 1000)

document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    generation++
    source?.close()
  } else {
    restart()
  }
})
restart().then(openLinked)
