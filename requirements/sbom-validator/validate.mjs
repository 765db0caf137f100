// Usage: node validate.mjs FILE...  Exit status 1 and a line for each file that CycloneDX's strict schema 1.6 refuses.
import { readFileSync } from "node:fs";
import { Spec, Validation } from "@cyclonedx/cyclonedx-library";

const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6);
let status = 0;
for (const path of process.argv.slice(2)) {
  const error = await validator.validate(readFileSync(path, "utf8"));
  if (error !== null) {
    status = 1;
    console.log(`${path}: ${JSON.stringify(error).slice(0, 2000)}`);
  }
}
process.exitCode = status;
