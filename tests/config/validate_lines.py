"""SCHEMA FILE: for each line of FILE, a JSON document, whether the schema takes it: `1` or `0`, one a line."""
import json
import sys

import jsonschema

with open(sys.argv[1]) as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
with open(sys.argv[2]) as file:
    for line in file:
        print(int(validator.is_valid(json.loads(line))))
