// Prints the declarations of Bicep files as JSON, one object for each file.
//
//   node bicep.mjs MODULES FILE...
//
// MODULES is a node_modules directory with web-tree-sitter and tree-sitter-bicep.
// Literals become JSON values. An expression becomes {"$": its text}, with its parts if
// the checks look into it: {"$", "ref"} for a variable, {"$", "either"} for a ternary,
// {"$", "call", "args"} for a call, and {"$", "each"} for a loop.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [modules, ...files] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), '_'))
const { Parser, Language } = await import(pathToFileURL(require.resolve('web-tree-sitter')))
await Parser.init()
const parser = new Parser()
parser.setLanguage(await Language.load(path.join(modules, 'tree-sitter-bicep', 'tree-sitter-bicep.wasm')))

const named = (node) => node.namedChildren.filter((child) => child.type !== 'comment')
const last = (node) => named(node).at(-1)

function text(node) {
  return named(node).map((part) => part.text).join('')
}

function value(node) {
  switch (node.type) {
    case 'object': return object(node)
    case 'array': return named(node).map(value)
    case 'boolean': return node.text === 'true'
    case 'number': return Number(node.text)
    case 'null': return null
    case 'string':
      if (named(node).some((part) => part.type === 'interpolation')) return { $: node.text }
      return text(node)
    case 'parenthesized_expression': return value(last(node))
    case 'identifier': return { $: node.text, ref: node.text }
    case 'ternary_expression': return { $: node.text, either: named(node).slice(1).map(value) }
    case 'for_statement': return { $: node.text, each: value(last(node)) }
    case 'call_expression': {
      const [name, args] = named(node)
      return { $: node.text, call: name.text, args: named(args).map(value) }
    }
    default: return { $: node.text }
  }
}

function object(node) {
  const result = {}
  for (const property of named(node)) {
    if (property.type !== 'object_property') continue
    const key = named(property)[0]
    const content = last(property)
    if (content.type === 'resource_declaration') continue
    const name = key.type === 'string' ? text(key) : key.text
    if (name in result) throw new Error(`line ${line(property)}: the property ${name} is there twice`)
    result[name] = value(content)
  }
  return result
}

const line = (node) => node.startPosition.row + 1

// body finds the object of a resource or module below its condition and its loop.
function body(node) {
  const result = { condition: false, loop: false, value: {} }
  let at = last(node)
  for (;;) {
    if (at.type === 'if_statement') result.condition = true
    else if (at.type === 'for_statement') result.loop = true
    else break
    at = last(at)
  }
  if (at.type !== 'object') throw new Error(`line ${line(node)}: a declaration without an object`)
  result.value = object(at)
  return result
}

// fullType prefixes the type of a nested resource with those of its parents.
function fullType(node) {
  const own = text(named(node).find((child) => child.type === 'string'))
  for (let at = node.parent; at; at = at.parent) {
    if (at.type !== 'resource_declaration') continue
    const [parent, version] = fullType(at).split('@')
    const [child, ownVersion] = own.split('@')
    return `${parent}/${child}@${ownVersion ?? version}`
  }
  return own
}

function declaration(node) {
  const kind = node.type.replace(/_declaration$/, '')
  const result = { kind, name: named(node)[0].text, line: line(node) }
  switch (kind) {
    case 'resource':
      return { ...result, type: fullType(node), existing: node.children.some((child) => child.type === 'existing'), ...body(node) }
    case 'module':
      return { ...result, file: text(named(node)[1]), ...body(node) }
    case 'parameter':
      return { ...result, required: named(node).length < 3 }
    default:
      return { ...result, value: value(last(node)) }
  }
}

const kinds = ['resource_declaration', 'module_declaration', 'parameter_declaration', 'variable_declaration', 'output_declaration']

// declaresName tells whether an identifier is a name of a declaration, a key, or a
// variable of a loop, and not a use of one.
function declaresName(node) {
  const { parent } = node
  const first = named(parent)[0].id === node.id
  if (parent.type === 'for_statement') return named(parent).slice(0, -2).some((child) => child.id === node.id)
  return first && (kinds.includes(parent.type) || parent.type === 'object_property' || parent.type === 'for_loop_parameters')
}

function variablesOfLoops(root) {
  return root.descendantsOfType('for_statement').flatMap((loop) => named(loop).slice(0, -2).flatMap((child) => [child, ...child.descendantsOfType('identifier')])).map((child) => child.text)
}

for (const file of files) {
  const { rootNode: root } = parser.parse(readFileSync(file, 'utf8'))
  const result = { file, errors: [], declarations: [], uses: [], loopVariables: variablesOfLoops(root), scope: '' }
  try {
    for (const node of root.descendantsOfType('ERROR')) result.errors.push(`line ${line(node)}: cannot be parsed: ${node.text.slice(0, 60)}`)
    if (root.hasError && !result.errors.length) result.errors.push('cannot be parsed')
    if (!result.errors.length) {
      result.declarations = root.descendantsOfType(kinds).map(declaration)
      result.uses = root.descendantsOfType('identifier').filter((node) => !declaresName(node)).map((node) => ({ name: node.text, line: line(node) }))
      const scope = root.descendantsOfType('target_scope_assignment')[0]
      if (scope) result.scope = text(last(scope))
    }
  } catch (error) {
    result.errors.push(error.message)
  }
  console.log(JSON.stringify(result))
}
