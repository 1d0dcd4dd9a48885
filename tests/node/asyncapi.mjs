// Reads an AsyncAPI document from standard input; prints what AsyncAPI's own parser says against it, and fails if it does.
import { text } from 'node:stream/consumers';
import { Parser } from '@asyncapi/parser';

const { document, diagnostics } = await new Parser().parse(await text(process.stdin));
for (const { severity, code, path, message } of diagnostics) {
  console.error(`${['error', 'warning', 'info', 'hint'][severity]} ${code} at ${path.join('.') || 'the top'}: ${message}`);
}
if (!document || diagnostics.some(({ severity }) => severity < 2)) process.exit(1);
console.log(`AsyncAPI ${document.version()}, ${document.allChannels().length} channels, ${document.allOperations().length} operations`);
