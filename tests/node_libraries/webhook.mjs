// Reads {secret, headers, body} as JSON, one a line; prints what the official library of Standard Webhooks says of each.
import { createInterface } from 'node:readline';
import { Webhook } from 'standardwebhooks';

for await (const line of createInterface({ input: process.stdin })) {
  const { secret, headers, body } = JSON.parse(line);
  try {
    new Webhook(secret).verify(body, headers);
    console.log('verified');
  } catch (error) {
    console.log(`refused: ${error.message}`);
  }
}
