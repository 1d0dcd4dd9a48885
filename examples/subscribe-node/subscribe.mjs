// Follows Redraft's events, checks each against the contract, and prints a line for it. README.md says how to start it.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { connect } from 'amqplib';

process.on('uncaughtException', (error) => { console.error(`subscribe: ${error.message}`); process.exit(1); });
const { values: options } = parseArgs({ options: {
  contract: { type: 'string', default: 'contract.json' },
  exchange: { type: 'string', default: 'redraft.events' }, // the stream that keeps all events has the same name
  bind: { type: 'string', default: '#' },
  'from-start': { type: 'boolean', default: false },
} });
const ajv = addFormats(new Ajv({ strict: false })).addSchema(JSON.parse(readFileSync(options.contract)), 'contract');
const fault = (type, part, value) => {
  const fits = ajv.getSchema(`contract#/components/messages/${type}/${part}`);
  return fits ? !fits(value) && `${part}: ${ajv.errorsText(fits.errors)}` : 'not in the contract; print it anew';
};
const parsed = (raw) => { try { return JSON.parse(raw); } catch { return undefined; } };
const unpacked = (message) => { // the stream has several events in one message, with what would be their headers
  const { headers = {}, contentType } = message.properties;
  const batch = contentType === 'application/cloudevents-batch+json' && parsed(message.content);
  const wrong = batch && fault('cloudevents.batch.events', 'payload', batch);
  if (wrong) console.error(`subscribe: a batch: ${wrong}`);
  if (!batch || wrong) return wrong ? [] : [{ headers, body: message.content }];
  const named = (event) => Object.fromEntries(Object.entries(event).map(([name, value]) => [`cloudEvents:${name}`, value]));
  return batch.map(({ data, ...event }) => ({ headers: named(event), body: JSON.stringify(data) }));
};
const channel = await (await connect(process.env.REDRAFT_BUS ?? 'amqp://localhost')).createChannel();
await channel.prefetch(100);
const stream = options['from-start'] && { 'x-stream-offset': 'first' };
const { queue } = stream ? { queue: options.exchange } : await channel.assertQueue('', { exclusive: true });
if (!stream) await channel.bindQueue(queue, options.exchange, options.bind);
let last = 0; // positions grow: an event whose position is not above the last came twice
await channel.consume(queue, (message) => {
  if (!message) throw new Error(`${queue} was deleted on the server`);
  for (const { headers, body } of unpacked(message)) {
    const [type, run, position] = ['type', 'subject', 'position'].map((name) => headers[`cloudEvents:${name}`]);
    const wrong = fault(type, 'headers', headers) || fault(type, 'payload', parsed(body));
    if (wrong) console.error(`subscribe: event ${position}, ${type}: ${wrong}`);
    else if (position > last) console.log(`${last = position} ${run} ${type} ${body}`);
  }
  channel.ack(message);
}, { arguments: stream || {} });
console.error(`subscribe: following ${queue}`);
