// Sends a CloudEvent to a queue in each way that the official SDK writes one: node cloudevents.mjs URL QUEUE TYPE SUBJECT DATA
import amqp from 'amqplib';
import { CloudEvent, HTTP } from 'cloudevents';

const [url, queue, type, subject, data] = process.argv.slice(2);
const make = (id) => new CloudEvent({ id, source: '/redraft/someone', type, subject, data: JSON.parse(data) });
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
const send = (body, contentType, headers = {}) => channel.sendToQueue(queue, Buffer.from(body), { contentType, headers });

const structured = HTTP.structured(make('structured'));
send(structured.body, structured.headers['content-type']);
const binary = HTTP.binary(make('binary'));
const { 'content-type': contentType, ...headers } = binary.headers;
send(binary.body, contentType, headers);
send(JSON.stringify([make('first'), make('second')]), 'application/cloudevents-batch+json; charset=utf-8');
await channel.waitForConfirms();
await connection.close();
