// Posts documents to a container, one after the other, and prints a line for each when
// it is answered: the client of another program, with the REST API alone.
//
//   node post.mjs CONNECTION-STRING DATABASE CONTAINER KEY-PROPERTY DOCUMENT...
//
// https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources
import { createHmac } from 'node:crypto'

const [connection, database, container, property, ...documents] = process.argv.slice(2)
const parts = Object.fromEntries(connection.split(';').filter(Boolean).map(p => [p.slice(0, p.indexOf('=')), p.slice(p.indexOf('=') + 1)]))
const link = `dbs/${database}/colls/${container}`

// A header has ASCII only.
const ascii = text => text.replace(/[^ -~]/g, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'))

for (const document of documents) {
  const date = new Date().toUTCString()
  const text = `post\ndocs\n${link}\n${date.toLowerCase()}\n\n`
  const signature = createHmac('sha256', Buffer.from(parts.AccountKey, 'base64')).update(text).digest('base64')
  const answer = await fetch(`${parts.AccountEndpoint}${link}/docs`, {
    method: 'POST',
    headers: {
      authorization: encodeURIComponent(`type=master&ver=1.0&sig=${signature}`),
      'x-ms-date': date,
      'x-ms-version': '2020-07-15',
      'x-ms-documentdb-partitionkey': ascii(JSON.stringify([JSON.parse(document)[property]])),
      'content-type': 'application/json',
    },
    body: document,
  })
  if (answer.status !== 201) throw new Error(`${answer.status} ${await answer.text()}`)
  console.log(JSON.parse(document).id)
}
