// Reads Kubernetes objects as a JSON list; prints what the schemas of KEDA's resources (its CRDs) say against each, and fails then.
import { text } from 'node:stream/consumers';
import * as keda from '@kubernetes-models/keda/keda.sh/v1alpha1/index';

let checked = 0;
for (const object of JSON.parse(await text(process.stdin))) {
  const place = `${object.kind} ${object.metadata?.name}`;
  try {
    new keda[object.kind](object).validate();
    checked += 1;
  } catch (error) {
    console.error(`${place}: ${error.message}`);
    process.exitCode = 1;
  }
}
console.log(`${checked} objects`);
